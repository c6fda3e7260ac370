"""Linear attention: a kernel feature map in place of the exponential."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.energies import EnergyAttention
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer, at_least_float32


class LinearAttention(EnergyAttention):
    """w_j = φ(W s) · φ(U h_j) / Σ_j φ(W s) · φ(U h_j), with φ(x) = elu(x) + 1.

    The energies are the logarithms of these products: the softmax gives the formula above, and all
    normalisers and windows can be used. Because the weights are returned, a step costs the same as
    with any other mechanism; the sums that make the cost independent of T (Σ φ(k_j) h_jᵀ and
    Σ φ(k_j)) would give the same context.
    Source: Katharopoulos et al. 2020, eq. (4), (5) and (7).
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
        self.key = nn.Linear(annotation_size, attention_size, bias=False)
        self.query = nn.Linear(query_size, attention_size, bias=False)

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the keys φ(U h_j): annotations (B, T, E) → memory with keys (B, T, A)."""
        keys = feature_map(self.key(annotations.values))
        return Memory(annotations.values, annotations.mask, keys)

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return ln φ(W s) · φ(U h_j): query (B, N, H) → (B, N, T)."""
        products = feature_map(self.query(query)) @ memory.keys.transpose(1, 2)
        return at_least_float32(products).clamp_min(torch.finfo(torch.float32).tiny).log()


def feature_map(values: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1: above 0, of the same shape."""
    return functional.elu(values) + 1
