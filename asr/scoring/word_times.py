"""How far word times are from those of a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import Span

NEAR: Final = (10, 25, 50, 100)  # ms within which a boundary counts as found
COLLARS: Final = (50, 200)  # ms within which both boundaries of a word must be for F1


class Errors(NamedTuple):
    """Signed errors of the start and the end of one word, in seconds; positive is too late."""

    start: float
    end: float


@dataclass(frozen=True)
class Distances:
    """Of N boundaries, in ms: mean and median distance, signed mean, and % within `NEAR`."""

    mean: float
    median: float
    signed: float
    near: tuple[float, ...]


@dataclass(frozen=True)
class WordTimeScores:
    """reference, hypothesis: numbers of words. same: words of both that are aligned and equal.

    starts, ends, both: of the words that are the same; None if there are none. f1: in %, for each
    of `COLLARS`: a word is right if it is the same and both its boundaries are within the collar.
    """

    reference: int
    hypothesis: int
    same: int
    starts: Distances | None
    ends: Distances | None
    both: Distances | None
    f1: tuple[float, ...]


def word_errors(reference: Sequence[Span], hypothesis: Sequence[Span]) -> list[Errors]:
    """Return the errors of the words that are the same, by an alignment of least edit distance.

    Words are compared as they are. Reference words whose start is NaN have no known time; they take
    part in the alignment, and are left out of the result.
    """
    import jiwer

    if not reference or not hypothesis:
        return []
    wanted, given = (" ".join(word.text for word in words) for words in (reference, hypothesis))
    (chunks,) = jiwer.process_words(wanted, given).alignments
    found = []
    for chunk in chunks:
        if chunk.type != "equal":
            continue
        for at in range(chunk.ref_end_idx - chunk.ref_start_idx):
            true, word = reference[chunk.ref_start_idx + at], hypothesis[chunk.hyp_start_idx + at]
            if not isnan(true.start):
                found.append(Errors(word.start - true.start, word.end - true.end))
    return found


def score_word_times(
    reference: Mapping[str, Sequence[Span]], hypothesis: Mapping[str, Sequence[Span]]
) -> WordTimeScores:
    """Score the words of several recordings, by name; one without a hypothesis has no word found.

    Words hold no spaces.
    """
    errors = [
        each
        for name, words in reference.items()
        for each in word_errors(words, hypothesis.get(name, ()))
    ]
    wanted = sum(not isnan(word.start) for words in reference.values() for word in words)
    given = sum(len(hypothesis.get(name, ())) for name in reference)
    return summarize(errors, wanted, given)


def summarize(errors: Sequence[Errors], reference: int, hypothesis: int) -> WordTimeScores:
    """Return the scores of these errors; reference, hypothesis: numbers of words."""
    milliseconds = 1000 * np.array(errors, np.float64).reshape(-1, 2)
    right = [
        int((np.abs(milliseconds).max(1, initial=0) <= collar + 1e-6).sum()) for collar in COLLARS
    ]
    total = max(reference + hypothesis, 1)
    parts = (milliseconds[:, 0], milliseconds[:, 1], milliseconds.ravel())
    starts, ends, both = (_distances(each) if len(each) else None for each in parts)
    f1 = tuple(float(200 * count / total) for count in right)
    return WordTimeScores(reference, hypothesis, len(errors), starts, ends, both, f1)


def _distances(errors: NDArray[np.float64]) -> Distances:
    away = np.abs(errors)
    near = tuple(float(100 * (away <= each + 1e-6).mean()) for each in NEAR)
    return Distances(float(away.mean()), float(np.median(away)), float(errors.mean()), near)
