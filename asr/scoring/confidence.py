"""How well word confidence agrees with the share of words that are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

BINS: Final = 10  # of equal width, from 0 to 1


class Bin(NamedTuple):
    """Words of similar confidence: their number, mean confidence, and share that is right."""

    words: int
    confidence: float
    correct: float


def correct_words(reference: str, hypothesis: str) -> list[bool]:
    """Return for each word of a hypothesis whether an alignment with the reference finds it."""
    import jiwer

    correct = [False] * len(hypothesis.split())
    if not reference.split() or not correct:
        return correct
    aligned = jiwer.process_words(" ".join(reference.split()), " ".join(hypothesis.split()))
    for chunk in aligned.alignments[0]:
        if chunk.type == "equal":
            for index in range(chunk.hyp_start_idx, chunk.hyp_end_idx):
                correct[index] = True
    return correct


def reliability(confidences: ArrayLike, correct: ArrayLike, bins: int = BINS) -> list[Bin]:
    """Group words by their confidence; empty bins are left out.

    confidences: (N,) from 0 to 1. correct: (N,) bool.
    """
    values, right = np.asarray(confidences, np.float64), np.asarray(correct, bool)
    places = np.minimum((values * bins).astype(int), bins - 1)
    return [
        Bin(int(here.sum()), float(values[here].mean()), float(right[here].mean()))
        for here in (places == place for place in range(bins))
        if here.any()
    ]


def expected_calibration_error(grouped: Sequence[Bin]) -> float:
    """Return the mean distance of confidence and share right over all words, from 0 to 1.

    Source: Naeini, Cooper and Hauskrecht 2015, "Obtaining Well Calibrated Probabilities Using
    Bayesian Binning".
    """
    words = sum(each.words for each in grouped)
    distances = sum(each.words * abs(each.confidence - each.correct) for each in grouped)
    return distances / max(words, 1)
