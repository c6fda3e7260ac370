"""The base of all mechanisms that compute one energy per position."""

from __future__ import annotations

import torch
from torch import Tensor

from asr.attention.contract import Alignment, Attention, Memory
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer


class EnergyAttention(Attention):
    """Energies → window → weights → context. A mechanism defines keys and energies."""

    def __init__(self, normalizer: Normalizer = SOFTMAX, window: Window | None = None) -> None:
        """Set how energies become weights.

        normalizer: one of `asr.attention.normalizers`.
        window: limits attention to positions around the last alignment; None allows all.
        """
        super().__init__()
        self.normalizer = normalizer
        self.window = window

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        raise NotImplementedError  # defined by each mechanism

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Attend: query (B, N, H) → context (B, N, E) and the alignment of this step (B, N, T)."""
        energies = self.energies(query, memory, previous)  # (B, N, T)
        allowed = memory.mask[:, None, :]  # (B, 1, T)
        if self.window is not None:
            energies, allowed = self.window.apply(energies, allowed, previous)
        weights = self.normalizer(energies, allowed, self.training)  # (B, N, T)
        context = torch.bmm(weights.to(memory.values.dtype), memory.values)  # (B, N, E)
        return context, previous.advance(weights)


def tanh_energies(inner: Tensor, vector: Tensor) -> Tensor:
    """Return vᵀ tanh(inner): inner (…, A), which is overwritten, and vector (A,) → (…).

    tanh(x) = 2σ(2x) − 1: torch's σ takes a tenth of the time of its tanh on a CPU. In place,
    because allocating memory of this size takes longer than the sum.
    """
    energies: Tensor = inner.mul_(2).sigmoid_() @ (2 * vector) - vector.sum()
    return energies


def energy_vector(size: int) -> torch.nn.Parameter:
    """Return the parameter v of `tanh_energies`, drawn uniformly from ±1/√size."""
    bound = size**-0.5
    return torch.nn.Parameter(torch.empty(size).uniform_(-bound, bound))
