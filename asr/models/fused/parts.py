"""What a loop with its gradient written out is made of: a GRU's gates, and the location term."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def move_cell(
    new: Tensor,  # (B, 3H), what the input adds to the gates; becomes reset, update, candidate
    old: Tensor,  # (B, 3H), what the state adds
    state: Tensor,  # (B, H)
    candidate_state: Tensor,  # (B, H), written: what the reset gate multiplies
    moved: Tensor,  # (B, H), written: the new state
) -> None:
    """Move a GRU on as `asr.models.cells.gru` does; what is written is what the way back needs."""
    size = state.size(1)
    new[:, : 2 * size].add_(old[:, : 2 * size]).sigmoid_()
    reset, update, candidate = new.chunk(3, dim=1)
    candidate_state.copy_(old[:, 2 * size :])
    candidate.addcmul_(reset, candidate_state).tanh_()
    torch.lerp(candidate, state, update, out=moved)


def cell_gradient(
    d_state: Tensor,  # (B, H), of the new state
    state: Tensor,  # (B, H), the old one
    gates: Tensor,  # (B, 3H), of `move_cell`
    candidate_state: Tensor,  # (B, H), of `move_cell`
    d_new: Tensor,  # (B, 3H), written: gradient of what the input adds to the gates
    d_old: Tensor,  # (B, 3H), written: gradient of what the old state adds
) -> Tensor:
    """Go back through the GRU's gates; return what reaches the old state directly."""
    size = state.size(1)
    reset, update, candidate = gates.chunk(3, dim=1)
    d_candidate = d_state * (1 - update) * (1 - candidate.square())
    d_new[:, 2 * size :] = d_candidate
    d_new[:, size : 2 * size] = d_state * (state - candidate) * update * (1 - update)
    d_new[:, :size] = d_candidate * candidate_state * reset * (1 - reset)
    d_old[:, : 2 * size] = d_new[:, : 2 * size]
    d_old[:, 2 * size :] = d_candidate * reset
    return d_state * update


class Location:
    """The location term of the energies and its gradient, by products with a band of the past."""

    def __init__(self, kernel: Tensor, dtype: torch.dtype, slope: Tensor | None = None) -> None:
        """Take the kernel (A, 2, K); slope (A,): what gradients of the term lack as a factor."""
        self.width = kernel.size(2)
        self.dtype = dtype
        self.matrix = kernel.flatten(1).to(dtype)  # (A, 2K)
        flipped = kernel.flip(2).flatten(1)
        self.flipped = (flipped if slope is None else slope[:, None] * flipped).to(dtype)

    def band(self, previous: Tensor, cumulative: Tensor) -> Tensor:
        """Return what each place sees of the past: two (B, T) → (B, T, 2K)."""
        reach = self.width // 2
        past = torch.stack([previous, cumulative], dim=1).to(self.dtype)
        past = functional.pad(past, (reach, reach))
        return past.unfold(2, self.width, 1).transpose(1, 2).flatten(2)

    def gradient_of_past(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients (B, T) of weights and cumulative from that of the term (B, T, A)."""
        reach = self.width // 2
        seen = functional.pad(gradient @ self.flipped, (0, 0, reach, reach))  # (B, T+2·reach, 2K)
        batch, padded, both = seen.shape
        length = padded - 2 * reach
        # Place i was seen by place i + j − reach as its (K−1−j)-th neighbour: a diagonal sum.
        diagonals = seen.as_strided(
            (batch, length, 2, self.width),
            (padded * both, both, self.width, both + 1),
            seen.storage_offset(),
        )
        return diagonals[:, :, 0].sum(-1), diagonals[:, :, 1].sum(-1)
