"""Measure what a transcription takes beside a lower bound: its matrix products alone.

    python benchmarks/lower_bound.py MANIFEST [--ids IDS] [--limit N] [--models english …]

Recordings are transcribed one by one by the NumPy engine, with one thread. Each product is counted
and timed where it is used; afterwards products of the same shapes are timed alone, their matrices
in the cache, the best of several. All other work, from reading files to the choice of hypotheses,
is left out of the bound. The table is in CPU milliseconds a second of audio.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from asr.commands.options import count
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table

SEARCHES = {"greedy": 1, "default": None}  # name → size of the beam; None keeps the model's own
REPEATS = 7
Shapes = tuple[tuple[int, ...], tuple[int, ...]]


class Products:
    """How often products of each pair of shapes were computed, and their seconds in all."""

    def __init__(self) -> None:
        self.counts: Counter[Shapes] = Counter()
        self.seconds = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the calls of `np.matmul` within the block; the operator @ is not seen."""
        matmul = np.matmul

        def product(left: Any, right: Any, **options: Any) -> Any:
            before = time.process_time()
            found = matmul(left, right, **options)
            self.seconds += time.process_time() - before
            self.counts[left.shape, right.shape] += 1
            return found

        with patch.object(np, "matmul", product):
            yield

    def alone(self) -> float:
        """Return the seconds of all products when each is computed by itself."""
        return sum(often * _best(*shapes) for shapes, often in self.counts.items())


def _best(left: tuple[int, ...], right: tuple[int, ...]) -> float:
    random = np.random.default_rng(1)
    one, other = (random.standard_normal(shape, np.float32) for shape in (left, right))
    seconds = []
    for _ in range(REPEATS):
        before = time.process_time()
        np.matmul(one, other)
        seconds.append(time.process_time() - before)
    return min(seconds)


def measure(model: str, search: str, utterances: Sequence[Utterance]) -> tuple[float, float, float]:
    """Return seconds a second of audio: in all, of products in use, of products alone."""
    recognizer = Recognizer.load(model, runtime="numpy").configured(beam=SEARCHES[search])
    recognizer.transcribe(utterances[0].audio)  # loads what is loaded on first use
    products = Products()
    before = time.process_time()
    with products.counted():
        for each in utterances:
            recognizer.transcribe(each.audio)
    audio = sum(each.duration for each in utterances)
    total = time.process_time() - before
    return total / audio, products.seconds / audio, products.alone() / audio


def main() -> None:
    """Read the arguments, measure, and print the table."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, help="use only these ids, one a line")
    parser.add_argument("--limit", type=count, default=12, help="recordings (default: 12)")
    parser.add_argument("--models", nargs="+", default=["english"])
    given = parser.parse_args()
    utterances = read_manifest(given.manifest)
    if given.ids is not None:
        utterances = select(utterances, given.ids)
    rows = []
    for model in given.models:
        for search in SEARCHES:
            found = measure(model, search, utterances[: given.limit])
            rows.append((model, search, *(f"{1000 * each:.1f}" for each in found)))
    header = ("model", "search", "all, ms", "products in use, ms", "products alone, ms")
    print(text_table(header, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
