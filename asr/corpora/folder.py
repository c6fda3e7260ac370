"""Corpora from a folder of recordings, each with a text file of the same name."""

from collections.abc import Sequence
from pathlib import Path

from asr.audio.find import find_audio
from asr.corpora.left_out import NO_RECORDING, NO_TEXT, LeftOut
from asr.corpora.manifest import Utterance, audio_duration, write_manifest
from asr.errors import UserError
from asr.text.lines import read_lines
from asr.text.normalize import normalize


def prepare(folder: str | Path, output: str | Path) -> list[LeftOut]:
    """Write the manifest `output` of a folder and return the files that it lacks.

    The text of `day/one.wav` is `day/one.txt` (UTF-8; line breaks count as spaces; empty if there
    is no speech), its id is `day/one`. Subfolders are included. Recordings without a text, texts
    without a recording, recordings that share a text and files that cannot be read are left out.

    Raises UserError if the folder does not exist or has no audio, or nothing of it can be used.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder, wanted one with audio and .txt files")
    recordings = find_audio([folder])
    left_out = [LeftOut(audio, NO_TEXT) for audio in recordings if not _text_file(audio).is_file()]
    if len(left_out) == len(recordings):
        raise UserError(
            f"{folder}: got {len(recordings)} recordings without a text, wanted a .txt file "
            f"next to each, such as {_text_file(recordings[0])}"
        )
    left_out += [LeftOut(text, NO_RECORDING) for text in _texts_alone(folder, recordings)]
    utterances = []
    for audio, *others in _by_text(recordings):
        try:
            utterances.append(_utterance(audio, others, folder))
        except UserError as error:
            left_out.append(LeftOut(audio, str(error)))
    if not utterances:
        raise UserError(f"{folder}: no recording can be used, such as {left_out[-1]}")
    write_manifest(output, utterances)
    return left_out


def _text_file(audio: Path) -> Path:
    return audio.with_suffix(".txt")


def _texts_alone(folder: Path, recordings: Sequence[Path]) -> list[Path]:
    """Return the texts that belong to no recording; hidden ones are skipped."""
    known = {_text_file(audio) for audio in recordings}
    texts = (each for each in sorted(folder.rglob("*.txt")) if each not in known)
    return [
        each
        for each in texts
        if not any(part.startswith(".") for part in each.relative_to(folder).parts)
    ]


def _by_text(recordings: Sequence[Path]) -> list[list[Path]]:
    """Return the recordings with a text, those that share one together."""
    owners: dict[Path, list[Path]] = {}
    for audio in recordings:
        owners.setdefault(_text_file(audio), []).append(audio)
    return [its for text, its in owners.items() if text.is_file()]


def _utterance(audio: Path, others: Sequence[Path], folder: Path) -> Utterance:
    """Return the utterance of a recording; others: that share its text."""
    text = _text_file(audio)
    if others:
        shared = " and ".join(map(str, (audio, *others)))
        raise UserError(f"{shared} share the text {text}; remove or rename one")
    written = _read_text(text)
    return Utterance(
        id=audio.relative_to(folder).with_suffix("").as_posix(),
        audio=audio,
        text=normalize(written),
        duration=audio_duration(audio),
        written=written,
    )


def _read_text(file: Path) -> str:
    return " ".join(word for line in read_lines(file) for word in line.text.split())
