"""The benchmark of cuts in speech: what is left of an utterance, and where it is cut."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asr.results import Word

SCRIPT = str(Path(__file__).parents[1] / "benchmarks" / "cuts.py")
cuts = SimpleNamespace(**runpy.run_path(SCRIPT))


def test_pauses_between_words_are_shortened_and_edges_dropped():
    samples = np.arange(5 * 16_000, dtype=np.float32)
    words = [Word("a", 1.0, 1.5), Word("b", 1.6, 2.0), Word("c", 4.0, 4.5)]
    found = cuts.without_pauses(samples, words)
    assert len(found) / 16_000 == pytest.approx(0.03 + 1.0 + 0.24 + 0.5 + 0.03, abs=1e-3)
    assert found[0] == pytest.approx(0.97 * 16_000, abs=1)
    assert found[-1] == pytest.approx(4.53 * 16_000, abs=2)


def test_cuts_lie_between_utterances_and_within_the_longest_piece():
    assert cuts.between([5.0, 18.0, 21.0, 50.0]) == [0.0, 18.0, 21.0, 41.0, 50.0]


def test_pieces_join_to_the_recording():
    samples = np.random.default_rng(0).normal(0, 0.1, 5 * 16_000).astype(np.float32)
    found = cuts.cut(samples, [0.0, 1.5, 5.0])
    assert [each.start for each in found] == [0.0, 1.5]
    assert np.array_equal(np.concatenate([each.samples for each in found]), samples)
