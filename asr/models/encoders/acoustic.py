"""Speech features → annotations: a front end, then bidirectional LSTMs."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from asr.attention.contract import Annotations
from asr.models.dropout import Dropout
from asr.models.encoders.recurrent import Bidirectional, reversal


class FrontEnd(Protocol):
    """The first layers of an encoder: features in, frames of another size and rate out."""

    size: int
    stride: int

    def __call__(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return frames (B, ⌈F / stride⌉, size) of features (B, F, ·), and their lengths (B,)."""


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """Return (B, longest) bool, True inside each length of lengths (B,)."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


class ConvolutionFrontEnd(nn.Module):
    """Two 3 × 3 convolutions of stride 2 over time and frequency, each masked over time.

    10 ms frames become 40 ms.
    """

    stride = 4

    def __init__(self, mels: int, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.size = channels * ((mels + 3) // 4)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Reduce features (B, F, mels), zero beyond lengths (B,) → (B, ⌈F/4⌉, size), lengths."""
        hidden = features[:, None]  # (B, 1, F, mels)
        for layer in (self.first, self.second):
            hidden = torch.relu(layer(hidden))  # (B, C, ⌈F/2⌉, ⌈mels/2⌉)
            lengths = (lengths + 1) // 2
            hidden = hidden * length_mask(lengths, hidden.size(2))[:, None, :, None]
        return hidden.permute(0, 2, 1, 3).flatten(2), lengths


class FrameFrontEnd(nn.Module):
    """No layers: the features are frames of a pretrained encoder already."""

    stride = 1

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (B, F, size) and lengths (B,) as they are."""
        return features, lengths


class AcousticEncoder(nn.Module):
    """A front end to 40 ms, residual BiLSTM layers, and between them a reduction to 80 ms.

    Each layer is x + dropout(BiLSTM(LayerNorm(x))): the sum lets a deep stack learn from the
    first batches on, where a plain one waits long before CTC or attention take hold.
    """

    def __init__(
        self,
        front: FrontEnd,
        state_size: int,
        layers: int,
        layers_before_reduction: int,
        dropout: float,
    ) -> None:
        """Make the encoder.

        state_size: of one direction of each LSTM.
        layers_before_reduction: how many of the layers work at 40 ms; the others work at
            80 ms. Equal to layers, there is no reduction and annotations stay at 40 ms.
        """
        super().__init__()
        if not 0 <= layers_before_reduction <= layers:
            raise ValueError(
                f"layers_before_reduction must be between 0 and layers={layers}, "
                f"got {layers_before_reduction}"
            )
        self.size = 2 * state_size
        self.layers_before_reduction = layers_before_reduction
        self.reduces = layers_before_reduction < layers
        self.reduction = front.stride * (2 if self.reduces else 1)
        self.front = front
        self.enter = nn.Linear(self.front.size, self.size)
        self.norms = nn.ModuleList(nn.LayerNorm(self.size) for _ in range(layers))
        self.layers = nn.ModuleList(Bidirectional(self.size, state_size) for _ in range(layers))
        self.reduce = nn.Linear(2 * self.size, self.size) if self.reduces else None
        self.last_norm = nn.LayerNorm(self.size)
        self.dropout = Dropout(dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> Annotations:
        """Annotate normalised features (B, F, ·) of lengths (B,) frames → (B, T, size).

        T = ⌈F / reduction⌉. The features must be 0 beyond each length.
        """
        hidden, lengths = self.front(features, lengths)
        hidden = self.enter(hidden)
        order = reversal(lengths, hidden.size(1))
        for index, (norm, layer) in enumerate(zip(self.norms, self.layers, strict=True)):
            if self.reduce is not None and index == self.layers_before_reduction:
                hidden, lengths = self._halve(hidden, lengths)
                order = reversal(lengths, hidden.size(1))
            hidden = hidden + self.dropout(layer(norm(hidden), order))
        mask = length_mask(lengths, hidden.size(1))
        values = self.last_norm(hidden) * mask[:, :, None]
        return Annotations(values, mask)

    def _halve(self, hidden: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Join each pair of annotations: (B, T, E) → (B, ⌈T/2⌉, E)."""
        assert self.reduce is not None
        hidden = hidden * length_mask(lengths, hidden.size(1))[:, :, None]
        hidden = nn.functional.pad(hidden, (0, 0, 0, hidden.size(1) % 2))
        return self.reduce(hidden.unflatten(1, (-1, 2)).flatten(2)), (lengths + 1) // 2
