"""A small network that predicts the exact time of a word boundary from the audio around it."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

REACH: Final = 28  # frames of 10 ms: input on either side of a boundary, and its largest offset
FRAMES: Final = 2 * REACH + 1
CONTEXT: Final = 2  # characters on either side of a boundary
CHARACTERS: Final = 2 * CONTEXT
CHANNELS: Final = 64
WIDTH: Final = 5  # frames seen by a convolution
NARROW: Final = 16  # channels before the output


class BoundaryModel(nn.Module):
    """Probability of each offset, −`REACH` to `REACH` frames, from approximate to true boundary.

    Three convolutions in time over the log-mel frames around the approximate boundary, the second
    and third with a residual connection; the characters on both sides of the boundary are added to
    each frame after the first. Pairs of neighbouring mel filters are averaged.

    mels: filters per frame, an even number. symbols: size of the vocabulary.
    """

    def __init__(self, mels: int, symbols: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.symbols = symbols
        # The names are those of stored weights.
        self.sound = nn.Conv1d(mels // 2, CHANNELS, WIDTH, padding="same")
        self.letters = nn.Embedding(CHARACTERS * symbols, CHANNELS)  # one table per position
        self.residual = nn.ModuleList(
            nn.Conv1d(CHANNELS, CHANNELS, WIDTH, padding="same") for _ in range(2)
        )
        self.narrow = nn.Linear(CHANNELS, NARROW)
        self.output = nn.Linear(FRAMES * NARROW, 2 * FRAMES)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, characters: Tensor, is_end: Tensor) -> Tensor:
        """Return the logits (N, FRAMES) of the offsets of N boundaries.

        features: (N, FRAMES, mels) of `standardised_log_mel`. characters: (N, CHARACTERS) ids, the
            blank where there is no character. is_end: (N,) bool, true for the end of a word, false
            for a start.
        """
        pairs = features.unflatten(2, (-1, 2)).mean(3).transpose(1, 2)  # (N, mels / 2, FRAMES)
        tables = torch.arange(CHARACTERS, device=characters.device) * self.symbols
        letters = self.letters(characters + tables).sum(1)  # (N, CHANNELS)
        hidden = (self.sound(pairs) + letters[:, :, None]).relu()
        for convolution in self.residual:
            hidden = hidden + convolution(self.dropout(hidden)).relu()
        narrow = self.narrow(hidden.transpose(1, 2)).flatten(1)
        both = self.output(narrow).unflatten(1, (2, FRAMES))
        return torch.where(is_end[:, None], both[:, 1], both[:, 0])

    def offsets(self, features: Tensor, characters: Tensor, is_end: Tensor) -> Tensor:
        """Return the median offset (N,) of each boundary, in frames; arguments as in `forward`."""
        cumulative: Tensor = self(features, characters, is_end).softmax(1).cumsum(1)
        return (cumulative < 0.5).sum(1) - REACH


def surroundings(features: Tensor, frames: Tensor) -> Tensor:
    """Return (N, FRAMES, mels): features (F, mels), F not 0, around each of frames (N,).

    The first and the last frame are repeated beyond the ends.
    """
    reach = torch.arange(-REACH, REACH + 1, device=frames.device)
    return features[(frames[:, None] + reach).clamp(0, len(features) - 1)]
