"""Energies of a two-layer network with rectified linear units."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from asr.attention.additive import AdditiveAttention
from asr.attention.contract import Alignment, Memory
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer


class ReluAttention(AdditiveAttention):
    """e_j = vᵀ max(0, W s + U h_j + b): additive attention with ReLU in place of tanh.

    The energies are not bounded by the size of v. Teacher forcing runs step by step, because the
    fused loop has only the derivative of tanh.
    """

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        attention_size: int = 128,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
    ) -> None:
        super().__init__(
            query_size, annotation_size, attention_size, normalizer=normalizer, window=window
        )

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        inner = memory.keys[:, None] + self.query(query)[:, :, None]  # (B, N, T, A)
        energies: Tensor = functional.relu(inner) @ self.energy
        return energies
