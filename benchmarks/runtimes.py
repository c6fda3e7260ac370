"""Compare what runs a model: NumPy, torch, and the ONNX graphs of `asr export`, in one process.

    asr export english english-onnx
    asr export english english-int8 --int8
    python benchmarks/runtimes.py corpora/dev.jsonl --engines english:numpy english:torch \
        english-onnx:onnx english-int8:onnx --what encoder greedy default

Each recording is transcribed alone, then all in batches of about eight, from file to text with word
times; "encoder" is the encoder alone, features included. The engines take turns, one batch each
time, so that other work on the machine weighs on all. The threads are those of OMP_NUM_THREADS, 1
without it. A table is printed: CPU seconds per second of audio, and in how many recordings the text
is that of the first engine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.audio.read import read
from asr.commands.options import count
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.pieces import pad, whole
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table

ENCODER = "encoder"
SEARCHES = {"greedy": 1, "default": None}  # name → size of the beam; None keeps the model's own
TOGETHER = 8  # recordings in a batch


class Result(NamedTuple):
    """A batch of recordings with one engine: CPU seconds, and texts, none of the encoder alone."""

    engine: str
    what: str
    together: int
    seconds: float
    texts: list[str]


def encode(recognizer: Recognizer, utterances: Sequence[Utterance]) -> tuple[float, list[str]]:
    """Return the CPU seconds of encoding recordings in one batch, and no texts."""
    audio = pad([whole(read(each.audio)) for each in utterances])
    before = time.process_time()
    recognizer.loaded.engine.encode(audio)
    return time.process_time() - before, []


def transcribe(recognizer: Recognizer, utterances: Sequence[Utterance]) -> tuple[float, list[str]]:
    """Return the CPU seconds of transcribing recordings in one batch, and the texts."""
    longest = max(each.duration for each in utterances)
    one_batch = recognizer.configured(batch_seconds=1.01 * longest * len(utterances))
    before = time.process_time()
    found = one_batch.transcribe([each.audio for each in utterances])
    return time.process_time() - before, [each.text for each in found]


def measure(
    engines: Sequence[str], parts: Sequence[str], utterances: Sequence[Utterance]
) -> Iterator[Result]:
    """Measure each engine ("model:runtime") in each part, alone and in batches."""
    loaded = {}
    for name in engines:
        model, _, runtime = name.rpartition(":")
        loaded[name] = Recognizer.load(model, runtime=runtime)
    in_order = sorted(utterances, key=lambda each: each.duration)
    for what in parts:
        run = encode if what == ENCODER else transcribe
        recognizers = {
            name: each.configured(beam=SEARCHES.get(what)) for name, each in loaded.items()
        }
        for recognizer in recognizers.values():
            run(recognizer, in_order[:1])  # loads what is loaded on first use
        for together in (1, TOGETHER):
            for start in range(0, len(in_order), together):
                batch = in_order[start : start + together]
                for name, recognizer in recognizers.items():
                    yield Result(name, what, together, *run(recognizer, batch))


def table(results: Sequence[Result], audio_seconds: float) -> list[tuple[str, ...]]:
    """Return the rows of the table: part, recordings together, engine, cost, equal texts."""
    seconds: dict[tuple[str, str, int], float] = defaultdict(float)
    texts: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for each in results:
        key = each.what, each.engine, each.together
        seconds[key] += each.seconds
        texts[key] += each.texts
    first = results[0].engine
    rows = []
    for (what, engine, together), spent in seconds.items():
        wanted = texts[what, first, together]
        equal = sum(map(str.__eq__, texts[what, engine, together], wanted))
        cost = f"{spent / audio_seconds:.4f}"
        same = f"{equal}/{len(wanted)}" if wanted else "–"
        rows.append((what, str(together), engine, cost, same))
    return rows


def main() -> None:
    """Read the arguments, measure, and print the table."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description="Compare the runtimes of a speech model.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, help="use only these ids, one a line")
    parser.add_argument("--limit", type=count, default=12, help="recordings (default: 12)")
    parser.add_argument(
        "--engines", nargs="+", default=["english:numpy", "english:torch"], metavar="MODEL:RUNTIME"
    )
    parser.add_argument(
        "--what", nargs="+", choices=[ENCODER, *SEARCHES], default=[ENCODER, *SEARCHES]
    )
    arguments = parser.parse_args()
    utterances = read_manifest(arguments.manifest)
    if arguments.ids is not None:
        utterances = select(utterances, arguments.ids)
    utterances = utterances[: arguments.limit]
    results = list(measure(arguments.engines, arguments.what, utterances))
    audio_seconds = sum(each.duration for each in utterances)
    print(f"{len(utterances)} recordings, {audio_seconds:.1f} s")
    header = ("part", "together", "engine", "CPU s per s", "same text")
    print(text_table(header, table(results, audio_seconds)))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
