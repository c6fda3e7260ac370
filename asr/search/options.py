"""Options of a beam search."""

from __future__ import annotations

from dataclasses import dataclass

from asr.errors import UserError
from asr.search.guard import DEFAULT_GUARD, RepeatGuard


@dataclass(frozen=True)
class BeamSettings:
    """Width, pruning, and the ranking of texts of different lengths.

    A hypothesis of U tokens that has ended ranks by
    (Σ over its U + 1 steps + length_bonus · U) / (U + 1) ** length_exponent.

    size: hypotheses kept for each utterance.
    length_exponent: 0 compares sums, 1 compares means per token.
    length_bonus: nats per token.
    end_threshold: a text may end only where log p(end) ≥ end_threshold · log p(most probable other
        token), by the decoder alone; at least 1; None lets it end anywhere. It prevents wide beams
        from ending texts early (Hannun et al. 2019, "Sequence-to-sequence speech recognition with
        time-depth separable convolutions").
    width: nats; hypotheses whose sum is further than this below the best of the same length are
        dropped. The search of an utterance stops when its best live hypothesis plus this width
        still ranks below the best that has ended.
    recombine: number of last tokens; of hypotheses that share these only the best is kept, so that
        the beam holds different endings; 0 keeps all. An approximation: the dropped hypothesis has
        another decoder state and could have won ("recombination" of n-gram search).
    guard: stops repetitions; None lets them run to the limit.
    """

    size: int = 8
    length_exponent: float = 0.0
    length_bonus: float = 0.0
    end_threshold: float | None = 1.5
    width: float = 20.0
    recombine: int = 0
    guard: RepeatGuard | None = DEFAULT_GUARD

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"beam size must be at least 1, got {self.size}")
        if self.end_threshold is not None and self.end_threshold < 1:
            raise UserError(f"end_threshold must be at least 1, got {self.end_threshold}")
        if self.length_exponent < 0:
            raise UserError(f"length_exponent must not be negative, got {self.length_exponent}")
        if self.recombine < 0:
            raise UserError(f"recombine must not be negative, got {self.recombine}")
        if not self.width > 0:
            raise UserError(f"beam width must be above 0 nats, got {self.width}")

    def rank(self, total: float, length: int) -> float:
        """Return the score of a text of `length` tokens; total: sum of its scores with the end."""
        divisor: float = (length + 1) ** self.length_exponent
        return (total + self.length_bonus * length) / divisor

    def bound(self, total: float, length: int, limit: int, gain: float = 0.0) -> float:
        """Return an upper bound of `rank` for all continuations of `length` tokens.

        total: sum of their scores. limit: largest number of tokens of the text. gain: most nats
        that a step can add, at least 0.
        """
        more = max(0.0, self.length_bonus + gain) * (limit - length)
        best = total + self.length_bonus * length + gain + more
        steps = (limit if best < 0 else length) + 1  # a larger divisor raises a negative sum
        divisor: float = steps**self.length_exponent
        return best / divisor
