"""Punctuation and case of the words of a transcript: hashed embeddings and bidirectional LSTMs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from asr.models.encoders.recurrent import Bidirectional, reversal
from asr.models.settings import PunctuationSettings


class Rows(NamedTuple):
    """The rows of W distinct words in the embedding table.

    whole: (W, 2) of the words themselves. grams: (G,) of their n-grams, one word after the other.
    starts: (W,) index of each word's first n-gram.
    """

    whole: Tensor
    grams: Tensor
    starts: Tensor


class PunctuationModel(nn.Module):
    """Logits of the mark after each word and of its case.

    A word is the sum of the rows of the whole word and the mean of those of its character n-grams
    (`asr.text.hashed`), so unknown words are read by their spelling.

    marks, cases: numbers of classes.
    """

    def __init__(self, settings: PunctuationSettings, marks: int, cases: int) -> None:
        super().__init__()
        size = settings.embedding_size
        # The names are those of stored weights.
        self.table = nn.Embedding(settings.buckets, size)
        nn.init.normal_(self.table.weight, std=0.3)
        sizes = [size, *[2 * settings.state_size] * settings.layers]
        self.layers = nn.ModuleList(Bidirectional(each, settings.state_size) for each in sizes[:-1])
        self.marks = nn.Linear(sizes[-1], marks)
        self.cases = nn.Linear(sizes[-1] + size, cases)
        self.dropout = nn.Dropout(settings.dropout)

    def vectors(self, rows: Rows, kept: Tensor | None = None) -> Tensor:
        """Return the vectors (W, E) of distinct words; kept: (W,) 0 hides the whole word's rows."""
        whole: Tensor = self.table(rows.whole).sum(1)  # (W, E)
        if kept is not None:
            whole = whole * kept[:, None]
        grams = nn.functional.embedding_bag(rows.grams, self.table.weight, rows.starts, mode="mean")
        return whole + grams

    def forward(self, vectors: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the logits of marks (B, T, M) and cases (B, T, C) of word vectors (B, T, E)."""
        order = reversal(torch.tensor(lengths), vectors.size(1))
        states = vectors
        for layer in self.layers:
            states = layer(self.dropout(states), order)
        states = self.dropout(states)
        return self.marks(states), self.cases(torch.cat([states, vectors], -1))
