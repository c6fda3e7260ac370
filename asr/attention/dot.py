"""The energies of Luong et al. 2015, and the scaled product of Vaswani et al. 2017."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.energies import EnergyAttention, energy_vector, tanh_energies
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer


class _ProductAttention(EnergyAttention):
    """Energies that are products of the query with the keys, without a projection of the query."""

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return s · k_j: query (B, N, H) → (B, N, T); keys are of the query's size."""
        return query @ memory.keys.transpose(1, 2)


class DotAttention(_ProductAttention):
    """e_j = s · h_j: no parameters, so states and annotations must have the same size.

    Source: Luong et al. 2015, eq. (8), "dot".
    """

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
    ) -> None:
        super().__init__(normalizer, window)
        if query_size != annotation_size:
            raise ValueError(
                f"dot attention wants states and annotations of equal size, got {query_size} and "
                f"{annotation_size}; use general or scaled_dot"
            )

    def prepare(self, annotations: Annotations) -> Memory:
        """Take the annotations (B, T, E) themselves as keys."""
        return Memory(annotations.values, annotations.mask, annotations.values)


class GeneralAttention(_ProductAttention):
    """e_j = sᵀ W h_j. Source: Luong et al. 2015, eq. (8), "general"."""

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
    ) -> None:
        super().__init__(normalizer, window)
        self.key = nn.Linear(annotation_size, query_size, bias=False)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the keys W h_j: annotations (B, T, E) → memory with keys (B, T, H)."""
        return Memory(annotations.values, annotations.mask, self.key(annotations.values))


class ConcatAttention(EnergyAttention):
    """e_j = vᵀ tanh(W [s; h_j]). Source: Luong et al. 2015, eq. (8), "concat".

    It has one matrix without a bias; additive attention has two matrices and a bias.
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
        self.both = nn.Linear(query_size + annotation_size, attention_size, bias=False)
        self.energy = energy_vector(attention_size)
        self.query_size = query_size

    def prepare(self, annotations: Annotations) -> Memory:
        """Compute the annotations' part of W [s; h_j]: (B, T, E) → memory with keys (B, T, A)."""
        columns = self.both.weight[:, self.query_size :]
        keys = functional.linear(annotations.values, columns)
        return Memory(annotations.values, annotations.mask, keys)

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        projected = functional.linear(query, self.both.weight[:, : self.query_size])  # (B, N, A)
        return tanh_energies(memory.keys[:, None] + projected[:, :, None], self.energy)


class ScaledDotAttention(EnergyAttention):
    """e_j = (W s) · (U h_j) / √A. Source: Vaswani et al. 2017, eq. (1)."""

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        attention_size: int = 128,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
    ) -> None:
        """Make the mechanism.

        attention_size: A; 0 leaves W and U out, for the heads of multi-head attention, which
            project before. normalizer, window: see `EnergyAttention`.
        """
        super().__init__(normalizer, window)
        self.key: nn.Module = nn.Identity()
        self.query: nn.Module = nn.Identity()
        if attention_size:
            self.key = nn.Linear(annotation_size, attention_size, bias=False)
            self.query = nn.Linear(query_size, attention_size, bias=False)
        elif query_size != annotation_size:
            raise ValueError(
                f"without projections states and annotations must have equal size, got "
                f"{query_size} and {annotation_size}; give an attention_size"
            )
        self.scale = 1 / math.sqrt(attention_size or query_size)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the keys U h_j: annotations (B, T, E) → memory with keys (B, T, A)."""
        return Memory(annotations.values, annotations.mask, self.key(annotations.values))

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the scaled products: query (B, N, H) → (B, N, T)."""
        energies: Tensor = self.query(query) @ memory.keys.transpose(1, 2)
        return energies * self.scale
