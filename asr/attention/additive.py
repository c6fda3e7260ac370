"""Additive attention (Bahdanau, Cho and Bengio 2015), with location features as an option."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.energies import EnergyAttention, energy_vector, tanh_energies
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer, Softmax


class AdditiveAttention(EnergyAttention):
    """e_j = vᵀ tanh(W s + U h_j + b), plus L f_j with location features f = F ∗ past weights.

    Source: Bahdanau et al. 2015, appendix A.1.2; the location term from Chorowski et al. 2015,
    eq. (9), here over two channels: the last weights and their sum over all steps.
    """

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        attention_size: int = 128,
        location_features: int = 0,
        location_width: int = 15,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
        triton: bool = False,
    ) -> None:
        """Make the mechanism.

        location_features: channels of the convolution over past weights; 0 leaves it out.
        location_width: its reach in annotations, odd.
        normalizer, window: see `EnergyAttention`.
        triton: compute with `asr.attention.triton_kernel` on CUDA, which needs the package triton.
        """
        super().__init__(normalizer, window)
        if location_width % 2 == 0:
            raise ValueError(f"location_width must be odd, got {location_width}")
        if triton and not isinstance(normalizer, Softmax):
            raise ValueError(f"triton = true computes a softmax, got the normalizer {normalizer}")
        self.triton = triton
        self.key = nn.Linear(annotation_size, attention_size)
        self.query = nn.Linear(query_size, attention_size, bias=False)
        self.energy = energy_vector(attention_size)
        self.location: nn.Sequential | None = None
        if location_features:
            self.location = nn.Sequential(
                nn.Conv1d(
                    2, location_features, location_width, padding=location_width // 2, bias=False
                ),
                nn.Conv1d(location_features, attention_size, 1, bias=False),
            )

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the keys U h_j + b: annotations (B, T, E) → memory with keys (B, T, A)."""
        return Memory(annotations.values, annotations.mask, self.key(annotations.values))

    def uses_kernel(self, device: torch.device) -> bool:
        """Whether `forward` computes with the Triton kernel for tensors on a device."""
        return self.triton and device.type == "cuda"

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Attend: query (B, N, H) → context (B, N, E) and the alignment of this step (B, N, T)."""
        if self.uses_kernel(query.device):
            return self._forward_by_kernel(query, memory, previous)
        return super().forward(query, memory, previous)

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        hidden = memory.keys[:, None] + self.query(query)[:, :, None]  # (B, N, T, A)
        if self.location is not None:
            hidden = hidden.add_(self._location_term(previous))
        return tanh_energies(hidden, self.energy)

    def _location_term(self, previous: Alignment) -> Tensor:
        """L f_j from past weights: (B, N, T, A)."""
        batch, hypotheses, length = previous.weights.shape
        features, project = self._location_features(previous)
        term = linear(features.transpose(1, 2), project)
        return term.view(batch, hypotheses, length, -1)

    def _location_features(self, previous: Alignment) -> tuple[Tensor, Tensor]:
        """Return the features f_j (B·N, F, T) from past weights, and L (A, F)."""
        assert self.location is not None
        batch, hypotheses, length = previous.weights.shape
        past = torch.stack([previous.weights, previous.cumulative], dim=2)  # (B, N, 2, T)
        spread, project = self.location
        assert isinstance(project, nn.Conv1d)
        features = spread(past.view(batch * hypotheses, 2, length))
        return features, project.weight[..., 0]  # a view, without a copy

    def _forward_by_kernel(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Compute `forward` by the Triton kernel."""
        from asr.attention.triton_kernel import additive_attention  # imports triton

        bias: Tensor | None = None
        allowed = memory.mask[:, None]
        if self.window is not None:
            zeros = torch.zeros_like(previous.weights)
            lowered, allowed = self.window.apply(zeros, allowed, previous)
            bias = lowered if self.window.soft else None
        features = project = None
        if self.location is not None:
            features, project = self._location_features(previous)
            features = features.unflatten(0, previous.weights.shape[:2])
        vector: Tensor = self.energy
        temperature = self.normalizer.temperature
        if temperature != 1:
            vector = vector / temperature
            bias = None if bias is None else bias / temperature
        context, weights = additive_attention(
            self.query(query), memory.keys, memory.values, vector, allowed, bias, features, project
        )
        return context, previous.advance(weights)
