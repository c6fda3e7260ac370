"""A rough time of a word's beginning or end made exact: a look at the sound around it."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

REACH: Final = 15  # frames of 10 ms that are looked at on either side, and that a time may move
FRAMES: Final = 2 * REACH + 1
LETTERS: Final = 4  # two before a boundary and two after it
HIDDEN: Final = 256


class BoundaryModel(nn.Module):
    """Probability of each offset, −`REACH` to `REACH` frames, from a rough to the true boundary.

    A perceptron of two layers over the log-mel frames around the rough boundary and the letters
    on both sides of it. Pairs of neighbouring mel filters are taken together.

    mels: filters of a frame, an even number. symbols: of the vocabulary.
    """

    def __init__(self, mels: int, symbols: int, dropout: float = 0.3) -> None:
        super().__init__()
        self.symbols = symbols
        self.sound = nn.Linear(FRAMES * (mels // 2), HIDDEN)
        self.letters = nn.Embedding(LETTERS * symbols, HIDDEN)  # a table for each of the four
        self.hidden = nn.Linear(HIDDEN, HIDDEN)
        self.output = nn.Linear(HIDDEN, 2 * FRAMES)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sound: Tensor, letters: Tensor, is_end: Tensor) -> Tensor:
        """Return logits (N, FRAMES) of N boundaries.

        sound: (N, FRAMES, mels), normalised. letters: (N, LETTERS) ids, the blank beyond the text.
        is_end: (N,) bool, whether a word ends there; else one begins.
        """
        pairs = sound.unflatten(2, (-1, 2)).mean(3).flatten(1)  # (N, FRAMES · mels / 2)
        tables = torch.arange(LETTERS, device=letters.device) * self.symbols
        first = self.sound(pairs) + self.letters(letters + tables).sum(1)  # (N, HIDDEN)
        second = self.hidden(self.dropout(first.relu()))
        both = self.output(self.dropout(second.relu())).unflatten(1, (2, FRAMES))
        return torch.where(is_end[:, None], both[:, 1], both[:, 0])

    def offsets(self, sound: Tensor, letters: Tensor, is_end: Tensor) -> Tensor:
        """Return the median offset (N,) of each boundary, in frames."""
        summed: Tensor = self(sound, letters, is_end).softmax(1).cumsum(1)
        return (summed < 0.5).sum(1) - REACH


def surroundings(features: Tensor, frames: Tensor) -> Tensor:
    """Return (N, FRAMES, mels) of features (F, mels) around frames (N,); F is not 0.

    Beyond the first and the last frame these are repeated.
    """
    reach = torch.arange(-REACH, REACH + 1, device=frames.device)
    return features[(frames[:, None] + reach).clamp(0, len(features) - 1)]
