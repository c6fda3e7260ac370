"""How a beam search goes about it."""

from __future__ import annotations

from dataclasses import dataclass

from asr.errors import UserError
from asr.search.guard import DEFAULT_GUARD, RepeatGuard


@dataclass(frozen=True)
class BeamSettings:
    """How wide to search, and how texts of different lengths compare.

    A hypothesis of U tokens that has ended ranks by
    (Σ over its U + 1 steps + length_bonus · U) / (U + 1) ** length_exponent.

    size: hypotheses kept alive for each utterance.
    length_exponent: 0 compares sums, 1 means per token.
    length_bonus: nats for each token.
    end_threshold: a text may end only where log p(end) ≥ end_threshold · log p(likeliest other
        token), by the decoder alone; at least 1; None lets it end anywhere. It keeps wide beams
        from texts that stop early (Hannun et al. 2019, "Sequence-to-sequence speech
        recognition with time-depth separable convolutions").
    width: nats; hypotheses whose sum is further than this below the best of the same length are
        dropped, and those that with as much more would rank below the best that has ended.
    recombine: of hypotheses whose last so many tokens are the same, the best alone lives on, so
        that a beam is not filled with one ending after different beginnings; 0 keeps all. What
        is dropped could in principle have won, as its decoder state is another ("recombination"
        of n-gram search, here an approximation).
    guard: what stops a hypothesis that goes in circles; None lets it go on to its limit.
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
        """Score of a text of `length` tokens whose steps sum to `total`, the end included."""
        divisor: float = (length + 1) ** self.length_exponent
        return (total + self.length_bonus * length) / divisor

    def bound(self, total: float, length: int, limit: int) -> float:
        """Upper bound of `rank` for all that may follow `length` tokens with this sum."""
        best = total + self.length_bonus * (limit if self.length_bonus > 0 else length)
        steps = (limit if best < 0 else length) + 1  # what is negative gains by length
        divisor: float = steps**self.length_exponent
        return best / divisor
