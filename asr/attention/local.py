"""Local attention around a predicted position (Luong et al. 2015, "local-p")."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asr.attention.contract import Alignment, Annotations, Memory
from asr.attention.energies import EnergyAttention, energy_vector, tanh_energies
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, Normalizer


class LocalAttention(EnergyAttention):
    """e_j = sᵀ W h_j − (j − p)² / (2σ²), with p = T · sigmoid(vᵀ tanh(P s)) and σ = D / 2.

    T is the number of annotations up to the last allowed one. There are two differences to the
    paper: the weights sum to 1, while its eq. (10) scales them after the softmax; and positions
    outside p ± D are not masked, so that p has a gradient from any distance. A `Window` masks
    positions around the last alignment. Source: Luong et al. 2015, eq. (9) and (10).
    """

    def __init__(
        self,
        query_size: int,
        annotation_size: int,
        attention_size: int = 128,
        local_reach: int = 10,
        normalizer: Normalizer = SOFTMAX,
        window: Window | None = None,
    ) -> None:
        """Make the mechanism.

        local_reach: D, the reach in annotations on either side of p.
        attention_size: that of v. normalizer, window: see `EnergyAttention`.
        """
        super().__init__(normalizer, window)
        if local_reach < 1:
            raise ValueError(f"local_reach must be at least 1 annotation, got {local_reach}")
        self.key = nn.Linear(annotation_size, query_size, bias=False)
        self.place = nn.Linear(query_size, attention_size, bias=False)
        self.energy = energy_vector(attention_size)
        self.deviation = local_reach / 2

    def prepare(self, annotations: Annotations) -> Memory:
        """Make the keys W h_j: annotations (B, T, E) → memory with keys (B, T, H)."""
        return Memory(annotations.values, annotations.mask, self.key(annotations.values))

    def energies(self, query: Tensor, memory: Memory, previous: Alignment) -> Tensor:
        """Return the unmasked energies (B, N, T) of query (B, N, H)."""
        places = torch.arange(memory.mask.size(1), device=query.device)  # (T,)
        lengths = ((places + 1) * memory.mask).amax(1)  # (B,)
        share = tanh_energies(self.place(query), self.energy).sigmoid()  # (B, N)
        distance = places - (lengths[:, None] * share)[..., None]  # (B, N, T)
        products = query @ memory.keys.transpose(1, 2)
        return products - (distance / self.deviation).square() / 2
