"""A recurrent language model of words: an LSTM and an adaptive softmax.

Words are ids in the order of their frequency. Clusters of rare words have separate softmaxes with
smaller vectors; the first softmax gives the probability of each cluster. Sources: Mikolov et al.
2010, "Recurrent neural network based language model"; Grave et al. 2017, "Efficient softmax
approximation for GPUs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.models.settings import LanguageSettings
from asr.tables import to_table


class LanguageState(NamedTuple):
    """The state of n texts: the LSTM's output and cell, both (n, H)."""

    output: Tensor
    cell: Tensor


class RecurrentLanguageModel(nn.Module):
    """p(word | all previous words); sizes: V words, H state, P vector before the softmax."""

    def __init__(
        self,
        words: int,
        embedding_size: int,
        state_size: int,
        vector_size: int,
        cutoffs: Sequence[int],
        dropout: float = 0.0,
    ) -> None:
        """Build the model.

        words: V, the most frequent first. cutoffs: boundaries of the clusters; the i-th cluster
        has vectors of size P / 2^i; cutoffs not below V are ignored.
        """
        super().__init__()
        self.embedding = nn.Embedding(words, embedding_size)
        nn.init.normal_(self.embedding.weight, std=embedding_size**-0.5)
        self.cell = nn.LSTM(embedding_size, state_size, batch_first=True)
        self.vector = nn.Linear(state_size, vector_size)
        self.dropout = nn.Dropout(dropout)
        bounds = [each for each in cutoffs if each < words]
        self._bounds = [*bounds, words]
        self.first = nn.Linear(vector_size, self._bounds[0] + len(bounds))
        sizes = [max(1, vector_size >> at) for at in range(1, len(self._bounds))]
        self.rarer = nn.ModuleList(
            nn.Sequential(nn.Linear(vector_size, size, bias=False), nn.Linear(size, after - before))
            for size, (before, after) in zip(sizes, pairwise(self._bounds), strict=True)
        )

    @torch.no_grad()
    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Take the weights of a model of the same sizes with these words or the first of them.

        The weights of further words, all in the last cluster, stay as they are.

        Raises:
            ValueError: the weights do not fit.
        """
        own = self.state_dict()
        if own.keys() != weights.keys():
            raise ValueError("other layers or clusters")
        last = f"rarer.{len(self.rarer) - 1}.1." if self.rarer else "first."
        for name, value in weights.items():
            rows, wanted = len(value), own[name].shape
            of_words = name == "embedding.weight" or name.startswith(last)
            if value.shape[1:] != wanted[1:] or not (
                rows == wanted[0] or (of_words and rows < wanted[0])
            ):
                raise ValueError(f"{name} has shape {tuple(value.shape)}, wanted {tuple(wanted)}")
        for name, value in weights.items():
            own[name][: len(value)] = value

    def start(self, texts: int) -> LanguageState:
        """Return the state before the first word."""
        zeros = self.embedding.weight.new_zeros(texts, self.cell.hidden_size)
        return LanguageState(zeros, zeros)

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        """Return −log p (B, L) of targets (B, L), the words that follow words (B, L)."""
        states, _ = self.cell(self.dropout(self.embedding(words)))
        vectors = self._vectors(states).flatten(0, 1)
        wanted = targets.flatten()
        bounds = torch.tensor(self._bounds, device=wanted.device)
        group = torch.bucketize(wanted, bounds, right=True)  # 0: among the first words
        gate = torch.where(group > 0, self._bounds[0] + group - 1, wanted)
        losses = functional.cross_entropy(self.first(vectors).float(), gate, reduction="none")
        for at, (before, softmax) in enumerate(zip(self._bounds, self.rarer, strict=False), 1):
            rows = torch.nonzero(group == at)[:, 0]
            logits = softmax(vectors[rows]).float()
            own = functional.cross_entropy(logits, wanted[rows] - before, reduction="none")
            losses = losses.index_add(0, rows, own)
        return losses.view(targets.shape)

    def step(self, words: Tensor, state: LanguageState) -> tuple[Tensor, LanguageState]:
        """Return log p (n, V) of the next word and the new state, from the last words (n,)."""
        # Equal to `self.cell`, which takes two to ten times as long for a single word.
        (weights,) = self.cell.all_weights
        state = LanguageState(*torch.lstm_cell(self.embedding(words), state, *weights))
        vectors = self._vectors(state.output)
        first = self.first(vectors).log_softmax(-1)
        gates = first[:, self._bounds[0] :]
        parts = [first[:, : self._bounds[0]]]
        parts += [
            gates[:, at, None] + softmax(vectors).log_softmax(-1)
            for at, softmax in enumerate(self.rarer)
        ]
        return torch.cat(parts, -1), state

    def _vectors(self, states: Tensor) -> Tensor:
        vectors: Tensor = self.dropout(torch.tanh(self.vector(self.dropout(states))))
        return vectors


def build_language_model(settings: LanguageSettings, words: int) -> RecurrentLanguageModel:
    """Build a model with this vocabulary size from its settings."""
    return RecurrentLanguageModel(words, **to_table(settings))
