"""The miscues of `benchmarks/reading.py`, and how they are counted."""

import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from asr.inference.reading_evidence import Evidence, Judge, features
from asr.reading import ReadStatus
from asr.results import Span

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import reading  # of benchmarks/
from miscues import (
    FADE,
    RATE,
    Change,
    Miscue,
    Neighbours,
    altered,
    distance,
    key,
    repeated,
)

WORDS = ["room", "moon", "soon", "knight", "night", "elephant", "shining", "shiny", "the", "they"]
SENTENCE = "the moon was shining on the room soon they saw the night of the elephant"
TEXT = SENTENCE.split()


@pytest.mark.parametrize("pair", [("night", "knight"), ("their", "there")])
def test_homophones_have_one_key_and_are_no_neighbours(pair: tuple[str, str]) -> None:
    assert key(pair[0]) == key(pair[1])
    assert Neighbours(pair).of(pair[0]) == []


def test_neighbours_are_similar_words() -> None:
    assert set(Neighbours(WORDS).of("moon")) == {"soon"}


@pytest.mark.parametrize(("pair", "edits"), [(("kitten", "sitting"), 3), (("a", ""), 1)])
def test_distance_counts_edits(pair: tuple[str, str], edits: int) -> None:
    assert distance(*pair, 9) == distance(*reversed(pair), 9) == edits
    assert distance(*pair, edits - 1) > edits - 1


def test_pages_are_altered_apart_and_tell_what_was_said() -> None:
    changes = set()
    for seed in range(30):
        found = altered(TEXT, Neighbours(WORDS), Random(seed))
        assert [each.said for each in found if each.change is not Change.INSERTED] == TEXT
        places = [at for at, each in enumerate(found) if each.change is not Change.NONE]
        assert all(later - one > 2 for one, later in pairwise(places))
        changes |= {each.change for each in found}
        assert found == altered(TEXT, Neighbours(WORDS), Random(seed))
    assert changes == set(Change)


def test_repeated_words_are_spliced_in_again() -> None:
    samples = np.arange(4 * RATE, dtype=np.float32)
    words = [Span(str(at), at, at + 1) for at in range(4)]
    twice, indices = repeated(samples, words, Random(3))
    assert len(twice) == len(samples) + len(indices) * RATE - FADE
    end = indices.stop * RATE
    np.testing.assert_array_equal(twice[: end - FADE], samples[: end - FADE])
    np.testing.assert_array_equal(twice[end:], samples[indices.start * RATE + FADE :])


def test_answers_are_counted_by_kind() -> None:
    miscues = [
        Miscue("the", Change.NONE, "the"),
        Miscue("room", Change.REPLACED, "moon"),
        Miscue("was", Change.DELETED, "was"),
        Miscue("always", Change.INSERTED, ""),
        Miscue("shining", Change.NONE, "shining"),
    ]
    case = reading.Case(None, miscues)
    statuses = [ReadStatus.RIGHT, ReadStatus.MISREAD, ReadStatus.SKIPPED, ReadStatus.MISREAD]
    answer = reading.Answer(statuses, ["the", "moon", None, "shine"], [2, 4], [])
    rows = reading.score([case], [answer]).rows
    assert rows["replaced"] == rows["replaced: heard right"] == (1, 1)
    assert rows["inserted, skipped"] == rows["deleted, added"] == (1, 1)
    assert rows["false alarm"] == (1, 2)
    assert rows["false alarm, 7-99 characters"] == (1, 1)
    assert rows["added, false, of page words"] == (1, 4)


def test_the_weights_of_the_evidence_are_found_again() -> None:
    random = np.random.default_rng(1)
    truth = Judge(bias=1, margin=0.3, decoder=0.2, agrees=2, rival=0.5, characters=0.1)
    pairs = []
    for _ in range(5000):
        evidence = Evidence(
            -random.exponential(5),
            -random.exponential(5),
            bool(random.random() < 0.5),
            random.random(),
            int(random.integers(1, 10)),
        )
        pairs.append((features(evidence), random.random() < truth.probability(evidence)))
    np.testing.assert_allclose(reading.fit(pairs).weights, truth.weights, atol=0.25)
