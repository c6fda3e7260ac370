"""Corpora from a folder of recordings, each with a text file of the same name."""

from collections.abc import Iterator
from pathlib import Path

from asr.audio.find import find_audio
from asr.corpora.manifest import Utterance, audio_duration, write_manifest
from asr.errors import UserError
from asr.text.lines import read_lines
from asr.text.normalize import normalize


def prepare(folder: str | Path, output: str | Path) -> list[Path]:
    """Write the manifest `output` of a folder and return the recordings without a text.

    The text of `day/one.wav` is `day/one.txt` (UTF-8; line breaks count as spaces; empty if there
    is no speech), its id is `day/one`. Subfolders are included. Recordings without a text file are
    left out.

    Raises UserError if the folder does not exist or has no audio or no texts, two recordings share
    a text, or a file cannot be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder, wanted one with audio and .txt files")
    recordings = find_audio([folder])
    _require_distinct(recordings)
    without_text = [audio for audio in recordings if not _text_file(audio).is_file()]
    if len(without_text) == len(recordings):
        raise UserError(
            f"{folder}: got {len(recordings)} recordings without a text, wanted a .txt file "
            f"next to each, such as {_text_file(recordings[0])}"
        )
    left_out = set(without_text)
    kept = [audio for audio in recordings if audio not in left_out]
    write_manifest(output, _utterances(kept, folder))
    return without_text


def _text_file(audio: Path) -> Path:
    return audio.with_suffix(".txt")


def _require_distinct(recordings: list[Path]) -> None:
    owner: dict[Path, Path] = {}
    for audio in recordings:
        other = owner.setdefault(_text_file(audio), audio)
        if other != audio:
            raise UserError(
                f"{other} and {audio} share the text {_text_file(audio)}; remove or rename one"
            )


def _utterances(recordings: list[Path], folder: Path) -> Iterator[Utterance]:
    for audio in recordings:
        written = _read_text(_text_file(audio))
        yield Utterance(
            id=audio.relative_to(folder).with_suffix("").as_posix(),
            audio=audio,
            text=normalize(written),
            duration=audio_duration(audio),
            written=written,
        )


def _read_text(file: Path) -> str:
    return " ".join(word for line in read_lines(file) for word in line.text.split())
