"""Two recognisers on the same utterances: the difference of their word error rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.scoring.words import (
    COVERAGE,
    ENOUGH_SPEAKERS,
    ErrorCounts,
    Interval,
    Scored,
    count_words,
)

RESAMPLES: Final = 1000


class Comparison(NamedTuple):
    """Word errors of two systems, and the difference of their rates (second minus first).

    Rates are fractions. interval: of the difference. better, worse: shares of the resamples in
    which the second has fewer and more errors. resampled: "speakers" or "utterances".
    """

    first: ErrorCounts
    second: ErrorCounts
    interval: Interval
    better: float
    worse: float
    resampled: str

    @property
    def difference(self) -> float:
        """The word error rate of the second minus that of the first."""
        return self.second.rate - self.first.rate


def compare(first: Sequence[Scored], second: Sequence[Scored], seed: int = 0) -> Comparison:
    """Compare two systems by a paired bootstrap (Bisani and Ney, ICASSP 2004, section 3).

    Both are scored on the same resamples, so that what makes an utterance hard for both cancels.
    first, second: of the same utterances, in one order. Speakers are resampled as in
    `asr.scoring.words.summarize`.
    """
    pairs = list(zip(first, second, strict=True))
    counts = [
        (count_words(one.reference, one.hypothesis), count_words(two.reference, two.hypothesis))
        for one, two in pairs
    ]
    speakers = [one.speaker for one in first]
    by_speaker = None not in speakers and len(set(speakers)) >= ENOUGH_SPEAKERS
    names = [str(each) for each in speakers] if by_speaker else [one.id for one in first]
    table = np.array([(one.errors, two.errors, one.reference) for one, two in counts])
    differences = _resampled(_summed(table, names), seed)
    tail = (100 - COVERAGE) / 2
    low, high = np.percentile(differences, [tail, 100 - tail])
    return Comparison(
        sum((one for one, _ in counts), ErrorCounts()),
        sum((two for _, two in counts), ErrorCounts()),
        Interval(float(low), float(high)),
        float((differences < 0).mean()),
        float((differences > 0).mean()),
        "speakers" if by_speaker else "utterances",
    )


def _summed(table: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the sums of the rows with one name, in order of the names."""
    distinct, places = np.unique(names, return_inverse=True)
    sums = np.zeros((len(distinct), table.shape[1]), np.int64)
    np.add.at(sums, places, table)
    return sums


def _resampled(units: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return the difference of the rates in each resample; units: errors of both, words (U, 3)."""
    generator = np.random.default_rng(seed)
    found = np.empty(RESAMPLES)
    for place in range(RESAMPLES):  # one at a time, to limit memory for long corpora
        drawn = generator.integers(0, len(units), len(units))
        first, second, words = np.bincount(drawn, minlength=len(units)) @ units
        found[place] = (second - first) / max(words, 1)
    return found
