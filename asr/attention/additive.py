"""Additive attention (Bahdanau, Cho and Bengio 2015), with location features as an option."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.energies import EnergyAttention, energy_vector, tanh_energies
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer


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
    ) -> None:
        """Make the mechanism.

        location_features: channels of the convolution over past weights; 0 leaves it out.
        location_width: its reach in annotations, odd.
        normalizer, window: see `EnergyAttention`.
        """
        super().__init__(normalizer, window)
        if location_width % 2 == 0:
            raise ValueError(f"location_width must be odd, got {location_width}")
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

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        hidden = memory.keys[:, None] + self.query(query)[:, :, None]  # (B, N, T, A)
        if self.location is not None:
            hidden = hidden.add_(self._location_term(previous))
        return tanh_energies(hidden, self.energy)

    def _location_term(self, previous: Alignment) -> Tensor:
        """L f_j from past weights: (B, N, T, A)."""
        assert self.location is not None
        batch, hypotheses, length = previous.weights.shape
        past = torch.stack([previous.weights, previous.cumulative], dim=2)  # (B, N, 2, T)
        spread, project = self.location
        assert isinstance(project, nn.Conv1d)
        features = spread(past.view(batch * hypotheses, 2, length))  # (B·N, F, T)
        term = linear(features.transpose(1, 2), project.weight[..., 0])  # a view, without a copy
        return term.view(batch, hypotheses, length, -1)
