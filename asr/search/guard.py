"""A watch on decoders that go in circles: the same text again and again, or attention stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from asr.errors import UserError


class GuardState(NamedTuple):
    """What the guard remembers of N hypotheses. P periods; [.., p − 1] is of the period p.

    tokens, peaks: (B, N, P), the token p steps ago and the annotation that had most weight then.
    repeated: (B, N, P), for how many tokens on end each has been the same as p tokens before.
    standing: (B, N, P), likewise, with attention no further than p tokens before.
    sitting: (B, N), for how many steps after the first attention has had this peak.
    """

    tokens: Tensor
    peaks: Tensor
    repeated: Tensor
    standing: Tensor
    sitting: Tensor


@dataclass(frozen=True)
class RepeatGuard:
    """What counts as going in circles.

    Speakers do say "no no no no", and attention then moves on with the sound. A decoder that
    loops says it while attention stands still or jumps back. So few repeats are borne in the
    second case and many in the first.

    longest_period: the longest text, in tokens, whose repetition is noticed.
    standing_repeats: that many copies end a hypothesis if attention does not move on.
    moving_repeats: that many end it wherever attention goes.
    sitting: more tokens than this on one annotation end it too; 0 turns this off, as a model
        whose attention does not move (one fixed context) needs.
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

    def start(self, batch: int, device: torch.device) -> GuardState:
        """Return the state before the first token, with N = 1."""
        shape = (batch, 1, self.longest_period)
        none = torch.full(shape, -1, device=device)  # equals no token and no place
        zeros = torch.zeros(shape, dtype=torch.long, device=device)
        return GuardState(none, none, zeros, zeros, zeros[..., 0])

    def advance(
        self, state: GuardState, tokens: Tensor, weights: Tensor
    ) -> tuple[GuardState, Tensor]:
        """Note the newest tokens (B, N) and the weights (B, N, T) they were found with.

        Returns the new state and (B, N) long: how many of the last tokens only repeat what was
        said before; 0 for a hypothesis that may go on.
        """
        peaks = weights.argmax(-1)  # (B, N)
        token, peak = tokens[..., None], peaks[..., None]
        same = state.tokens == token  # (B, N, P)
        still = same & (state.peaks >= peak)
        repeated = (state.repeated + 1) * same
        standing = (state.standing + 1) * still
        sitting = (state.sitting + 1) * (state.peaks[..., 0] == peaks)
        new = GuardState(
            torch.cat([token, state.tokens[..., :-1]], dim=-1),
            torch.cat([peak, state.peaks[..., :-1]], dim=-1),
            repeated,
            standing,
            sitting,
        )
        return new, self._excess(new)

    def _excess(self, state: GuardState) -> Tensor:
        """How many of the last tokens to cut, (B, N) long: the longest run that trips."""
        periods = torch.arange(1, self.longest_period + 1, device=state.tokens.device)
        moving = state.repeated >= periods * (self.moving_repeats - 1)  # (B, N, P)
        standing = state.standing >= periods * (self.standing_repeats - 1)
        run = torch.where(moving, state.repeated, state.standing * standing).amax(-1)
        if self.sitting:
            run = torch.maximum(run, state.sitting * (state.sitting > self.sitting))
        return run


DEFAULT_GUARD = RepeatGuard()
