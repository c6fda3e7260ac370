"""Additive attention with coverage: energies depend on the past weights of each position."""

from __future__ import annotations

from torch import Tensor, nn

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.energies import EnergyAttention, energy_vector, tanh_energies
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer


class CoverageAttention(EnergyAttention):
    """e_j = vᵀ tanh(W s + U h_j + b + c_j u), c_j the sum of the weights of all past steps.

    Source: See, Liu and Manning 2017, eq. (11); Tu et al. 2016, eq. (6), with fertility 1.
    Location features also use the past of neighbouring positions. u is initialised to 0, so that
    training starts as additive attention: growing sums make the start of training unstable.
    """

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        attention_size: int = 128,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
    ) -> None:
        super().__init__(normalizer, window)
        self.key = nn.Linear(annotation_size, attention_size)
        self.query = nn.Linear(query_size, attention_size, bias=False)
        self.coverage = nn.Linear(1, attention_size, bias=False)
        nn.init.zeros_(self.coverage.weight)
        self.energy = energy_vector(attention_size)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the keys U h_j + b: annotations (B, T, E) → memory with keys (B, T, A)."""
        return Memory(annotations.values, annotations.mask, self.key(annotations.values))

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        inner = memory.keys[:, None] + self.query(query)[:, :, None]  # (B, N, T, A)
        inner = inner + self.coverage(previous.cumulative[..., None])
        return tanh_energies(inner, self.energy)
