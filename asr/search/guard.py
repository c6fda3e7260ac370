"""Stops hypotheses that repeat themselves, or whose attention does not move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.search.contract import Integers

Counts = NDArray[np.int32]


class GuardState(NamedTuple):
    """The recent past of N hypotheses. P periods; [.., p − 1] is of the period p.

    tokens, peaks: (B, N, P), the token p steps ago and the annotation with the most weight then.
    repeated: (B, N, P), length of the run of tokens equal to the token p steps before.
    standing: (B, N, P), likewise, where in addition attention is no further than p steps before.
    sitting: (B, N), number of steps after the first with the same peak.
    """

    tokens: Counts
    peaks: Counts
    repeated: Counts
    standing: Counts
    sitting: Counts


@dataclass(frozen=True)
class RepeatGuard:
    """When a hypothesis counts as a loop.

    Speakers do repeat themselves ("no no no no"), and attention then moves on. A decoder in a loop
    repeats while attention stands still or jumps back. So few repeats are tolerated in the second
    case and many in the first.

    longest_period: the longest text, in tokens, whose repetition is detected.
    standing_repeats: number of copies that stop a hypothesis if attention does not move on.
    moving_repeats: number of copies that stop it whatever attention does.
    sitting: more tokens than this on one annotation stop it too; 0 turns this off, as needed for a
        model whose attention does not move (one fixed context).
    """

    longest_period: int = 40
    standing_repeats: int = 4
    moving_repeats: int = 10
    sitting: int = 40

    def __post_init__(self) -> None:
        if self.longest_period < 1 or self.sitting < 0:
            raise UserError(
                f"longest_period must be at least 1 and sitting at least 0, "
                f"got {self.longest_period} and {self.sitting}"
            )
        if min(self.standing_repeats, self.moving_repeats) < 2:
            raise UserError(
                f"a repetition takes two copies at least, got standing_repeats "
                f"{self.standing_repeats} and moving_repeats {self.moving_repeats}"
            )

    def start(self, batch: int) -> GuardState:
        """Return the state before the first token, with N = 1."""
        shape = (batch, 1, self.longest_period)
        none = np.full(shape, -1, np.int32)  # equals no token and no annotation
        zeros = np.zeros(shape, np.int32)
        return GuardState(none, none, zeros, zeros, zeros[..., 0])

    def advance(
        self, state: GuardState, tokens: Integers, peaks: Integers
    ) -> tuple[GuardState, Counts]:
        """Append the newest tokens (B, N) and the annotations (B, N) with the most weight.

        Returns the new state and, (B, N), how many of the last tokens are repetition; 0 for a
        hypothesis that may go on.
        """
        token, peak = tokens.astype(np.int32)[..., None], peaks.astype(np.int32)[..., None]
        same = state.tokens == token  # (B, N, P)
        still = same & (state.peaks >= peak)
        repeated = (state.repeated + 1) * same
        standing = (state.standing + 1) * still
        sitting = (state.sitting + 1) * (state.peaks[..., 0] == peak[..., 0])
        new = GuardState(
            np.concatenate([token, state.tokens[..., :-1]], axis=-1),
            np.concatenate([peak, state.peaks[..., :-1]], axis=-1),
            repeated,
            standing,
            sitting,
        )
        return new, self._excess(new)

    def _excess(self, state: GuardState) -> Counts:
        """Return how many of the last tokens to cut, (B, N): the longest run over a threshold."""
        periods = np.arange(1, self.longest_period + 1, dtype=np.int32)
        moving = state.repeated >= periods * (self.moving_repeats - 1)  # (B, N, P)
        standing = state.standing >= periods * (self.standing_repeats - 1)
        run = np.where(moving, state.repeated, state.standing * standing).max(-1)
        if self.sitting:
            run = np.maximum(run, state.sitting * (state.sitting > self.sitting))
        return np.asarray(run, np.int32)


DEFAULT_GUARD = RepeatGuard()
