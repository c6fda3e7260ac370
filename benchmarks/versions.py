"""Compare versions of asr on the same recordings, in one run: checkouts with the models they ship.

    python benchmarks/versions.py list MANIFEST [--ids FILE] --checkouts OLD NEW
    python benchmarks/versions.py hour MANIFEST [--ids FILE] --noise MANIFEST --checkouts OLD NEW
    python benchmarks/versions.py clips FOLDER --checkouts OLD NEW

list: error rates of a manifest. hour: a recording by `long_recordings.py`, and its utterances as
files. clips: FOLDER/KIND/ has recordings that are not English speech (`recipes/guard.py --keep`);
words an hour in segments that are not marked, and the clips warned of among those with text.
CHECKOUT is a folder with the package `asr`. Each version runs `asr transcribe`, with --options, in
a process of its own, whose peak memory and CPU time are reported, in all and by second of audio.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jiwer
import soundfile
from long_recordings import Recording, Run, compose, in_gaps, run, words_of

from asr.audio.read import SAMPLE_RATE
from asr.corpora.manifest import Utterance, read_manifest, read_noise, select
from asr.errors import UserError, exit_status
from asr.inference.plausibility import LEAST_ENGLISH
from asr.render.tables import text_table
from asr.text.normalize import normalize

Row = tuple[object, ...]


class Version:
    """A checkout that transcribes."""

    def __init__(self, checkout: Path, options: Sequence[str]) -> None:
        """Use the package `asr` of a folder.

        Raises:
            UserError: there is none.
        """
        if not (checkout / "asr" / "__init__.py").is_file():
            raise UserError(f"{checkout}: no checkout: has no asr/__init__.py")
        self.name = checkout.resolve().name
        self._checkout, self._options = checkout.resolve(), options

    def transcribe(self, audio: Sequence[Path]) -> Run:
        """Transcribe files; the records are in their order."""
        with tempfile.TemporaryDirectory() as folder:
            found = run(audio, Path(folder, "found.jsonl"), self._options, self._checkout)
        records = {Path(each["path"]): each for each in found.records}
        if missing := [path for path in audio if path not in records]:
            raise UserError(f"{self.name}: wrote nothing of {missing[0]}")
        return found._replace(records=[records[path] for path in audio])


def costs(found: Run, seconds: float) -> Row:
    """Return the last columns of a row: peak in MB, CPU-seconds, the same by second of audio."""
    return (f"{found.megabytes:.0f}", f"{found.seconds:.0f}", f"{found.seconds / seconds:.3f}")


COSTS = ("peak MB", "CPU-s", "CPU-s per s")


def rates(texts: Sequence[str], found: Run) -> tuple[str, str, int]:
    """Return WER and CER in percent and the number of wrong words; texts: normalised."""
    spoken = [normalize(each["text"]) for each in found.records]
    words = jiwer.process_words(list(texts), spoken)
    wrong = words.substitutions + words.deletions + words.insertions
    return f"{100 * words.wer:.2f}", f"{100 * float(jiwer.cer(list(texts), spoken)):.2f}", wrong


def is_warned(record: dict[str, object]) -> bool:
    """Whether a transcript is said not to look like English; versions before the score never do."""
    score = record.get("english")
    return isinstance(score, float) and score < LEAST_ENGLISH


LIST = ("version", "utterances", "WER", "CER", "wrong words", "warned of", *COSTS)


def of_list(version: Version, utterances: Sequence[Utterance]) -> Iterator[Row]:
    """Yield a row of the errors of a list."""
    found = version.transcribe([each.audio for each in utterances])
    warned = sum(map(is_warned, found.records))
    seconds = sum(each.duration for each in utterances)
    errors = rates([each.text for each in utterances], found)
    yield version.name, len(utterances), *errors, warned, *costs(found, seconds)


HOUR = ("version", "decoded", "WER", "CER", "wrong words", "words in gaps", *COSTS)


def of_hour(version: Version, recording: Recording, whole: Path, parts: list[Path]) -> list[Row]:
    """Return the rows of a recording and of its utterances, both written as files."""
    texts = [each.text for each in recording.utterances]
    found, alone = version.transcribe([whole]), version.transcribe(parts)
    gaps = len(in_gaps(words_of(found.records[0]), recording.gaps))
    seconds = len(recording.samples) / SAMPLE_RATE
    short = sum(each.end - each.start for each in recording.utterances)
    return [
        (version.name, "whole", *rates([" ".join(texts)], found), gaps, *costs(found, seconds)),
        (version.name, "utterances", *rates(texts, alone), None, *costs(alone, short)),
    ]


def of_hours(versions: Sequence[Version], recording: Recording) -> list[Row]:
    """Write the files of a recording, and return the rows of all versions."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_hour(recording, Path(folder))
        return [row for each in versions for row in of_hour(each, recording, *files)]


CLIPS = ("version", "material", "clips", "words an hour", "unmarked", "warned of", "with text")


def of_clips(version: Version, folder: Path) -> Iterator[Row]:
    """Yield a row for each folder of clips.

    Raises:
        UserError: there are none.
    """
    clips = sorted(folder.glob("*/*.flac"))
    if not clips:
        raise UserError(f"{folder}: no clips: wanted KIND/*.flac")
    found = version.transcribe(clips)
    for kind in dict.fromkeys(clip.parent for clip in clips):
        own = [record for clip, record in zip(clips, found.records, strict=True)
               if clip.parent == kind]  # fmt: skip
        hours = sum(each["duration"] for each in own) / 3600
        words = sum(len(each["words"]) for each in own)
        unmarked = sum(
            len(segment["text"].split())
            for each in own
            for segment in each["segments"]
            if not segment.get("low_confidence")
        )
        with_text = [each for each in own if each["text"]]
        yield (
            version.name,
            kind.name,
            len(own),
            f"{words / hours:.0f}",
            f"{unmarked / hours:.0f}",
            sum(map(is_warned, with_text)),
            len(with_text),
        )


def write_hour(recording: Recording, folder: Path) -> tuple[Path, list[Path]]:
    """Write a recording and its utterances, and return the files."""
    whole = folder / "whole.flac"
    soundfile.write(whole, recording.samples, SAMPLE_RATE)
    parts = []
    for at, one in enumerate(recording.utterances):
        parts.append(folder / f"{at:04}.flac")
        edges = slice(round(one.start * SAMPLE_RATE), round(one.end * SAMPLE_RATE))
        soundfile.write(parts[-1], recording.samples[edges], SAMPLE_RATE)
    return whole, parts


def main() -> None:
    """Read the arguments, run each version and print the table."""
    parser = argparse.ArgumentParser(description="Compare versions of asr.")
    parser.add_argument("what", choices=("list", "hour", "clips"))
    parser.add_argument("material", type=Path, help="manifest, or folder of clips")
    parser.add_argument("--checkouts", type=Path, nargs="+", required=True, metavar="CHECKOUT")
    parser.add_argument("--options", default="", help='of asr transcribe, as "--beam 1"')
    parser.add_argument("--ids", type=Path, metavar="FILE", help="use only these utterances")
    parser.add_argument("--noise", type=Path, metavar="MANIFEST", help="of the hour")
    parser.add_argument("--minutes", type=float, default=60.0, help="of the hour")
    parser.add_argument("--seed", type=int, default=0, help="of the hour")
    given = parser.parse_args()
    versions = [Version(each, shlex.split(given.options)) for each in given.checkouts]
    material = given.material.resolve()  # versions run in another folder
    if given.what == "clips":
        header, rows = CLIPS, [row for each in versions for row in of_clips(each, material)]
    else:
        utterances = read_manifest(material)
        if given.ids is not None:
            utterances = select(utterances, given.ids)
        if given.what == "list":
            header, rows = LIST, [row for each in versions for row in of_list(each, utterances)]
        else:
            noise = read_noise(given.noise) if given.noise else []
            recording = compose(utterances, noise, given.minutes, given.seed)
            header, rows = HOUR, of_hours(versions, recording)
    print(text_table(header, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
