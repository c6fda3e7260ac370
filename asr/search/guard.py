"""Detection of decoding loops: repeated tokens, or attention that does not move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.search.contract import Integers

Counts = NDArray[np.int32]


class GuardState(NamedTuple):
    """The recent steps of N hypotheses, for periods p = 1 … P; index p − 1 is period p.

    tokens, peaks: (B, N, P), the token p steps ago and the annotation with the most weight then.
    repeated: (B, N, P), length of the run of tokens equal to the token p steps before.
    standing: (B, N, P), the same, where in addition the peak of attention is not later than it
        was p steps before.
    sitting: (B, N), number of steps since the peak of attention last changed.
    """

    tokens: Counts
    peaks: Counts
    repeated: Counts
    standing: Counts
    sitting: Counts


@dataclass(frozen=True)
class RepeatGuard:
    """The conditions under which a hypothesis counts as a loop.

    Speakers do repeat themselves ("no no no no"), but then attention moves forward. In a loop of
    the decoder it stays or jumps back. So many repeats are tolerated in the first case and few in
    the second.

    longest_period: length of the longest repeated text that is detected, in tokens.
    standing_repeats: number of copies that stop a hypothesis if attention does not move forward.
    moving_repeats: number of copies that stop it wherever attention moves.
    sitting: more tokens than this on one annotation also stop it; 0 turns this off, as needed for
        a model whose attention does not move (one fixed context).
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
                f"a repetition has at least two copies, got standing_repeats "
                f"{self.standing_repeats} and moving_repeats {self.moving_repeats}"
            )

    def start(self, batch: int) -> GuardState:
        """Return the state before the first token, with N = 1."""
        shape = (batch, 1, self.longest_period)
        none = np.full(shape, -1, np.int32)  # different from all tokens and annotations
        zeros = np.zeros(shape, np.int32)
        return GuardState(none, none, zeros, zeros, zeros[..., 0])

    def advance(
        self, state: GuardState, tokens: Integers, peaks: Integers
    ) -> tuple[GuardState, Counts]:
        """Append the newest tokens (B, N) and the annotations (B, N) with the most weight.

        Returns the new state and the number (B, N) of tokens at the end that are repetition; 0 for
        a hypothesis that may continue.
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
        """Return the number of tokens to cut, (B, N): the longest run above a threshold."""
        periods = np.arange(1, self.longest_period + 1, dtype=np.int32)
        moving = state.repeated >= periods * (self.moving_repeats - 1)  # (B, N, P)
        standing = state.standing >= periods * (self.standing_repeats - 1)
        run = np.where(moving, state.repeated, state.standing * standing).max(-1)
        if self.sitting:
            run = np.maximum(run, state.sitting * (state.sitting > self.sitting))
        return np.asarray(run, np.int32)


DEFAULT_GUARD = RepeatGuard()
