"""Measure what a long recording loses against its utterances decoded alone.

    python benchmarks/long_recordings.py MANIFEST --ids FILE --noise MANIFEST [--minutes N]
        [--seeds N ...] [--without PART ...] [--model MODEL] [--beam N] [--clean]
        [--keep FOLDER]

Utterances in random order are joined with pauses (0.3 to 1.5 s), gaps without speech (5 to 40 s),
changes of level (−12 to +6 dB) and noise (28 dB below the speech). `asr transcribe` decodes the
recording in a process of its own, whose peak memory and CPU time are reported. The same utterances
are decoded alone: as they are in the recording ("alone"), and with --clean also without noise and
changes of level ("clean"). --without removes a part; without pauses, utterances follow each other
directly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import numpy as np
import soundfile
from numpy.typing import NDArray

import asr
from asr.audio.read import SAMPLE_RATE, read
from asr.corpora.manifest import Utterance, read_manifest, read_noise, select
from asr.errors import UserError, exit_status
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table
from asr.results import Span

PARTS = ("pauses", "gaps", "levels", "noise")
PAUSE = (0.3, 1.5)  # seconds
GAP = (5.0, 40.0)  # seconds
GAP_SHARE = 0.12  # of the pauses that are gaps
LEVEL_DB = (-12.0, 6.0)
LEVEL_SHARE = 0.3  # of the utterances before which the level changes
NOISE_DB = -28.0  # of the noise, relative to the speech before its level changes
MARGIN = 0.3  # seconds at the edges of a gap in which a word still counts as speech
DRIFT_SHARE = 0.1  # of the words, at the beginning and at the end, whose times are compared

# Runs a command and prints its peak memory in MB and CPU seconds. In a small process of its own: on
# Linux the peak of a child includes the memory of the process that starts it.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)
sys.exit(done.returncode)
"""

Samples = NDArray[np.float32]


class Placed(NamedTuple):
    """An utterance in a recording; start, end: seconds."""

    start: float
    end: float
    text: str
    clean: Samples


class Recording(NamedTuple):
    """A recording with its utterances, and its gaps (start, end) in seconds."""

    samples: Samples
    utterances: list[Placed]
    gaps: list[tuple[float, float]]


class Run(NamedTuple):
    """What a process wrote and used: a record for each file, peak memory in MB, CPU seconds."""

    records: list[dict[str, Any]]
    megabytes: float
    seconds: float


def compose(
    utterances: Sequence[Utterance],
    noise: Sequence[Utterance],
    minutes: float,
    seed: int,
    without: Sequence[str] = (),
) -> Recording:
    """Join utterances in random order to a recording of about `minutes`; see `PARTS`."""
    random = np.random.default_rng(seed)
    parts: list[Samples] = []
    placed: list[Placed] = []
    gaps: list[tuple[float, float]] = []
    position, gain = 0, 1.0
    for index in _order(len(utterances), random):
        if position >= minutes * 60 * SAMPLE_RATE:
            break
        clean = read(utterances[index].audio).samples
        clean *= 0.05 / max(float(np.sqrt(np.mean(np.square(clean)))), 1e-6)
        level = random.uniform(*LEVEL_DB)
        if random.random() < LEVEL_SHARE and "levels" not in without:
            gain = 10 ** (level / 20)
        pause, gap, is_gap = random.uniform(*PAUSE), random.uniform(*GAP), random.random()
        end = position + len(clean)
        placed.append(
            Placed(position / SAMPLE_RATE, end / SAMPLE_RATE, utterances[index].text, clean)
        )
        silence = round((pause if "pauses" not in without else 0.0) * SAMPLE_RATE)
        if is_gap < GAP_SHARE and "gaps" not in without:
            silence = round(gap * SAMPLE_RATE)
            gaps.append((end / SAMPLE_RATE, (end + silence) / SAMPLE_RATE))
        parts += [np.float32(gain) * clean, np.zeros(silence, np.float32)]
        position = end + silence
    samples = np.concatenate(parts)
    if "noise" not in without and noise:
        samples += _noise(noise, len(samples), random)
    return Recording(np.clip(samples, -1, 1), placed, gaps)


def _order(count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return indices in random order, several rounds of them, for recordings of any length."""
    return np.concatenate([random.permutation(count) for _ in range(10)])


def _noise(noise: Sequence[Utterance], size: int, random: np.random.Generator) -> Samples:
    """Join recordings of noise, each at the same level, to `size` samples."""
    joined = np.zeros(size, np.float32)
    position = 0
    while position < size:
        clip = read(noise[random.integers(len(noise))].audio).samples
        clip = clip * (
            0.05 * 10 ** (NOISE_DB / 20) / max(float(np.sqrt(np.mean(np.square(clip)))), 1e-6)
        )
        length = min(len(clip), size - position)
        joined[position : position + length] = clip[:length]
        position += length
    return joined


def run(
    audio: Sequence[Path], output: Path, options: Sequence[str], checkout: Path | None = None
) -> Run:
    """Run `asr transcribe` on files and measure the process.

    output: file to write, .jsonl. checkout: folder of another package `asr`, for which all paths
    must be absolute; None: the one imported.

    Raises:
        UserError: the command failed.
    """
    root = Path(asr.__file__).parents[1] if checkout is None else checkout
    command = [sys.executable, "-m", "asr", "transcribe", *map(str, audio), "-o", str(output)]
    measured = subprocess.run(
        [sys.executable, "-c", MEASURE, *command, *options],
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=checkout and output.parent,  # the current folder comes before PYTHONPATH
        stdout=subprocess.PIPE,
        text=True,
    )
    if measured.returncode:
        raise UserError(f"{root}: asr transcribe failed")
    megabytes, seconds = map(float, measured.stdout.split()[-2:])
    return Run([*map(json.loads, output.read_text("utf-8").splitlines())], megabytes, seconds)


def words_of(record: dict[str, Any]) -> list[Span]:
    """Return the words of a record."""
    return [Span(each["word"], each["start"], each["end"]) for each in record["words"]]


def alone(recognizer: Recognizer, pieces: Sequence[Samples]) -> list[list[Span]]:
    """Return the words of each piece, decoded alone."""
    results = recognizer.transcribe_each(pieces, rate=SAMPLE_RATE)
    return [list(getattr(result, "words", ())) for result in results]


def word_error_rate(texts: Sequence[str], words: Sequence[Sequence[Span]]) -> float:
    """Return the word error rate in percent over all utterances."""
    found = [" ".join(word.text for word in each) for each in words]
    return 100 * float(jiwer.wer(list(texts), found))


def drift(one: Sequence[Span], two: Sequence[Span]) -> float:
    """Return by how many ms the times of the same words move apart from beginning to end."""
    texts = [" ".join(word.text for word in each) for each in (one, two)]
    (chunks,) = jiwer.process_words(*texts).alignments
    apart = [
        two[chunk.hyp_start_idx + at].start - one[chunk.ref_start_idx + at].start
        for chunk in chunks
        if chunk.type == "equal"
        for at in range(chunk.ref_end_idx - chunk.ref_start_idx)
    ]
    count = max(1, round(DRIFT_SHARE * len(apart)))
    return 1000 * float(np.median(apart[-count:]) - np.median(apart[:count]))


def in_gaps(words: Sequence[Span], gaps: Sequence[tuple[float, float]]) -> list[Span]:
    """Return the words in a gap, more than `MARGIN` from its edges."""
    return [
        word
        for word in words
        if any(start + MARGIN < (word.start + word.end) / 2 < end - MARGIN for start, end in gaps)
    ]


def measure(
    recording: Recording,
    recognizer: Recognizer,
    folder: Path,
    options: Sequence[str],
    with_clean: bool,
) -> tuple[str | int | None, ...]:
    """Return a row of the table; with_clean: decode the utterances without noise as well."""
    edges = [(round(one.start * SAMPLE_RATE), round(one.end * SAMPLE_RATE))
             for one in recording.utterances]  # fmt: skip
    texts = [one.text for one in recording.utterances]
    pieces = alone(recognizer, [recording.samples[start:end] for start, end in edges])
    clean = None
    if with_clean:
        found = alone(recognizer, [one.clean for one in recording.utterances])
        clean = f"{word_error_rate(texts, found):.2f}"
    audio = folder / "recording.flac"
    soundfile.write(audio, recording.samples, SAMPLE_RATE)
    whole = run([audio.resolve()], folder.resolve() / "recording.jsonl", options)
    words = words_of(whole.records[0])
    shifted = [
        word._replace(start=word.start + one.start, end=word.end + one.start)
        for one, spoken in zip(recording.utterances, pieces, strict=True)
        for word in spoken
    ]
    duration = len(recording.samples) / SAMPLE_RATE
    return (
        f"{duration / 60:.0f}",
        f"{word_error_rate([' '.join(texts)], [words]):.2f}",
        f"{word_error_rate(texts, pieces):.2f}",
        clean,
        len(in_gaps(words, recording.gaps)),
        f"{sum(end - start for start, end in recording.gaps):.0f}",
        f"{drift(shifted, words):.1f}",
        f"{whole.megabytes:.0f}",
        f"{whole.seconds / duration:.3f}",
    )


HEADER = ("seed", "minutes", "WER", "alone", "clean", "words in gaps", "s of gaps", "drift ms",
          "peak MB", "CPU-s per s")  # fmt: skip


def main() -> None:
    """Read the arguments, compose a recording for each seed, and print a table."""
    parser = argparse.ArgumentParser(description="Measure long recordings.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, metavar="FILE", help="use only these utterances")
    parser.add_argument("--noise", type=Path, metavar="MANIFEST", help="recordings of noise")
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--without", nargs="+", choices=PARTS, default=[])
    parser.add_argument("--model", default="english")
    parser.add_argument("--beam", type=int)
    parser.add_argument("--clean", action="store_true", help="decode the clean utterances too")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write audio and JSON here")
    given = parser.parse_args()
    utterances = read_manifest(given.manifest)
    if given.ids is not None:
        utterances = select(utterances, given.ids)
    noise = read_noise(given.noise) if given.noise else []
    recognizer = Recognizer.load(given.model).configured(beam=given.beam)
    options = ["-m", given.model, *(["--beam", str(given.beam)] if given.beam else [])]
    rows = []
    for seed in given.seeds:
        recording = compose(utterances, noise, given.minutes, seed, given.without)
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.keep or Path(temporary)
            rows.append((seed, *measure(recording, recognizer, folder, options, given.clean)))
    print(text_table(HEADER, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
