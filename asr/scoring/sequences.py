"""Similarity of two sequences: position accuracy, longest common subsequence, exact match.

Both ratios divide by the length of the longer sequence: deletions and insertions cost the same,
the ratio is at most 1, and it is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from asr.errors import UserError

Symbols = Sequence[Hashable]


@dataclass(frozen=True)
class SequenceScores:
    """Means over all pairs of sequences, 0 to 1.

    position_accuracy: PSA, mean of `position_accuracy`. lcs_ratio: LCSR, mean of `lcs_ratio`.
    exact: share of equal pairs. sequences: number of pairs.
    empty: share of pairs whose sides are both empty. Each counts as 1 in the three means; a
        convention that counts it as 0 lowers PSA and LCSR by this share.
    """

    position_accuracy: float
    lcs_ratio: float
    exact: float
    sequences: int
    empty: float

    @property
    def geometric_mean(self) -> float:
        """The geometric mean of the two means, √(PSA · LCSR)."""
        return math.sqrt(self.position_accuracy * self.lcs_ratio)

    @property
    def geometric_mean_empty_as_zero(self) -> float:
        """The same with empty pairs counted as 0: at most 1 − `empty`."""
        without = (self.position_accuracy - self.empty) * (self.lcs_ratio - self.empty)
        return math.sqrt(max(0.0, without))  # rounding may give a negative number


def position_accuracy(reference: Symbols, hypothesis: Symbols) -> float:
    """Return the share of positions, 0 to 1, at which both sequences have the same symbol.

    The positions are those of the longer one. Two empty sequences score 1. A deleted symbol shifts
    all that follow, so this can be near 0 while `lcs_ratio` is near 1.
    """
    places = max(len(reference), len(hypothesis))
    same = sum(one == other for one, other in zip(reference, hypothesis, strict=False))
    return same / places if places else 1.0


def lcs_ratio(reference: Symbols, hypothesis: Symbols) -> float:
    """Return the longest common subsequence as a share of the longer sequence, 0 to 1.

    Two empty sequences score 1. At least `position_accuracy`, whose matches are a common
    subsequence. Source: Melamed 1995, "Automatic evaluation and uniform filter cascades for
    inducing N-best translation lexicons".
    """
    longer = max(len(reference), len(hypothesis))
    return lcs_length(reference, hypothesis) / longer if longer else 1.0


def lcs_length(one: Symbols, other: Symbols) -> int:
    """Return the length of the longest common subsequence, which need not be contiguous.

    Source: Crochemore et al. 2001, "A fast and practical bit-vector algorithm for the longest
    common subsequence problem": a row of the table of Wagner and Fischer is one integer, whose zero
    bits are the columns at which the length grows.
    """
    places: dict[Hashable, int] = {}  # bit j: whether other[j] is this symbol
    for j, each in enumerate(other):
        places[each] = places.get(each, 0) | 1 << j
    every = (1 << len(other)) - 1
    row = every
    for symbol in one:
        found = row & places.get(symbol, 0)
        row = (row + found | row - found) & every
    return len(other) - row.bit_count()


def score(references: Sequence[Symbols], hypotheses: Sequence[Symbols]) -> SequenceScores:
    """Score hypotheses against their references; each pair has the same weight.

    Raises UserError if the numbers of sequences differ or there are none.
    """
    if len(references) != len(hypotheses):
        raise UserError(
            f"got {len(references)} references and {len(hypotheses)} hypotheses; "
            "the numbers must match"
        )
    if not references:
        raise UserError("nothing to score: got no sequences")
    pairs = list(zip(references, hypotheses, strict=True))
    count = len(pairs)
    return SequenceScores(
        position_accuracy=sum(position_accuracy(*pair) for pair in pairs) / count,
        lcs_ratio=sum(lcs_ratio(*pair) for pair in pairs) / count,
        exact=sum(list(one) == list(other) for one, other in pairs) / count,
        sequences=count,
        empty=sum(not one and not other for one, other in pairs) / count,
    )
