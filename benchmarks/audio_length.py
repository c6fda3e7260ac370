"""Measure the cost of transcribing against the length of a recording.

    python benchmarks/audio_length.py MANIFEST [--ids IDS] [--seconds 10 60 600] [--model english]
        [--window BACK,AHEAD] [--json FILE]

A recording of each length is made of those of the manifest, one after another with half a second
of silence between, and cut. Each is a file (WAV), transcribed in a process of its own, once with
greedy and once with the default search. The table has CPU seconds (loading not counted) per second
of audio, and the peak of resident memory. Threads: OMP_NUM_THREADS, 1 without it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE, read
from asr.commands.options import count, window
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table

PAUSE = np.zeros(SAMPLE_RATE // 2, np.float32)
BEAMS = {"greedy": 1, "default": None}  # None keeps the model's own


class Job(NamedTuple):
    """A transcription: a model, a search, and the file of a recording.

    window: of the attention, as `Recognizer.configured` takes it; None: the model's own.
    """

    model: str
    search: str
    file: Path
    window: tuple[float, float] | None = None


class Cost(NamedTuple):
    """CPU seconds, and peak of resident memory in MB."""

    seconds: float
    megabytes: float


def recording(utterances: Sequence[Utterance], seconds: int) -> NDArray[np.float32]:
    """Join recordings to one of a length; they are repeated if there are too few."""
    wanted = seconds * SAMPLE_RATE
    parts: list[NDArray[np.float32]] = []
    while sum(map(len, parts)) < wanted:
        for each in utterances:
            parts += [read(each.audio).samples, PAUSE]
            if sum(map(len, parts)) >= wanted:
                break
    return np.concatenate(parts)[:wanted]


def transcribe(job: Job) -> Cost:
    """Transcribe, and return the cost; the peak is that of the whole process."""
    recognizer = Recognizer.load(job.model)
    recognizer = recognizer.configured(beam=BEAMS[job.search], window=job.window)
    with soundfile.SoundFile(job.file) as sound:
        start = sound.read(2 * SAMPLE_RATE, dtype="float32")
    recognizer.transcribe(start, rate=SAMPLE_RATE)  # loads the rest
    before = time.process_time()
    recognizer.transcribe(job.file)
    spent = time.process_time() - before
    return Cost(spent, _peak())


def _peak() -> float:
    """Return the peak of this process's resident memory in MB."""
    # `ru_maxrss` also counts the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()  # Linux
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Read the arguments, measure, and print the table."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description="Cost against the length of a recording.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, help="use only these ids, one a line")
    parser.add_argument("--seconds", type=count, nargs="+", default=[10, 30, 60, 180, 600])
    parser.add_argument("--model", default="english", help="folder, or name (default: english)")
    parser.add_argument(
        "--window", type=window, metavar="BACK,AHEAD", help="attention window in seconds, besides"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    utterances = read_manifest(arguments.manifest)
    if arguments.ids is not None:
        utterances = select(utterances, arguments.ids)
    rows, figures = [], []
    windows = [None] if arguments.window is None else [None, arguments.window]
    processes = multiprocessing.get_context("spawn")
    with TemporaryDirectory() as folder:
        file = Path(folder, "recording.wav")
        for seconds in arguments.seconds:
            soundfile.write(file, recording(utterances, seconds), SAMPLE_RATE)
            for search, reach in product(BEAMS, windows):
                with processes.Pool(1) as pool:
                    cost = pool.apply(transcribe, (Job(arguments.model, search, file, reach),))
                each = f"{cost.seconds / seconds:.4f}"
                name = "–" if reach is None else "{:g},{:g}".format(*reach)
                rows.append((str(seconds), search, name, each, f"{cost.megabytes:.0f}"))
                job = {"length": seconds, "search": search, "window": reach}
                figures.append(job | cost._asdict())
    print(text_table(("seconds", "search", "window", "CPU s per s", "peak MB"), rows))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
