"""What all mechanisms share whose weights come from one energy a place."""

from __future__ import annotations

import torch
from torch import Tensor

from asr.attention.contract import Alignment, Attention, Memory
from asr.attention.masks import Window
from asr.attention.normalizers import NORMALIZERS


class EnergyAttention(Attention):
    """Energies → window → weights → context. A mechanism says how it makes keys and energies."""

    def __init__(self, normalizer: str = "softmax", window: Window | None = None) -> None:
        """Keep what turns energies into weights.

        normalizer: a name in `NORMALIZERS`.
        window: where to look around the last alignment; None looks everywhere.
        """
        super().__init__()
        if normalizer not in NORMALIZERS:
            raise ValueError(
                f"normalizer {normalizer!r} is not one of: {', '.join(sorted(NORMALIZERS))}"
            )
        self.normalizer = normalizer
        self.window = window

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        raise NotImplementedError

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Attend: query (B, N, H) → context (B, N, E) and the alignment of this step (B, N, T)."""
        energies = self.energies(query, memory, previous)  # (B, N, T)
        allowed = memory.mask[:, None, :]  # (B, 1, T)
        if self.window is not None:
            energies, allowed = self.window.apply(energies, allowed, previous)
        weights = NORMALIZERS[self.normalizer](energies, allowed)  # (B, N, T)
        context = torch.bmm(weights.to(memory.values.dtype), memory.values)  # (B, N, E)
        return context, previous.advance(weights)
