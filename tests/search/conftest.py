"""Decoders with known probabilities, instead of trained ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from asr.attention import AdditiveAttention, Alignment, Annotations, Memory
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings
from asr.models.state import DecoderState
from asr.runtime.torch_runtime import TorchDecoder
from asr.text.vocabulary import EOS


class TableDecoder:
    """Reads the logits of a prefix from a table in the memory.

    memory.values: (B, V ** (limit + 1), V), the row of a prefix being its number in base V, EOS
    in front. The prefix's number is kept in the state; weights are 1 at that number.
    """

    def __init__(self) -> None:
        self.rows_seen: list[int] = []

    def start(self, memory: Memory) -> DecoderState:
        batch, length, size = memory.values.shape
        weights = torch.zeros(batch, 1, length)
        context = torch.zeros(batch, 1, size)
        return DecoderState(torch.zeros(batch, 1, 1), context, Alignment(weights, weights))

    def step(
        self, token: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState]:
        self.rows_seen.append(len(token))
        length, size = memory.values.shape[1:]
        number = (state.hidden[..., 0].long() * size + token) % length
        logits = memory.values.gather(1, number[..., None].expand(-1, -1, size))
        weights = torch.nn.functional.one_hot(number, length).float()
        alignment = state.alignment.advance(weights)
        return logits, DecoderState(number[..., None].float(), logits, alignment)


class ScriptedDecoder:
    """Emits given tokens with given attention, utterance by utterance.

    memory.values: (B, steps, 2): token and peak of each step; the last one is repeated.
    """

    vocabulary_size = 12
    places = 40

    def start(self, memory: Memory) -> DecoderState:
        batch = len(memory.values)
        weights = torch.zeros(batch, 1, self.places)
        nothing = torch.zeros(batch, 1, 1)
        return DecoderState(nothing, nothing, Alignment(weights, weights))

    def step(
        self, token: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[Tensor, DecoderState]:
        length = memory.values.size(1)
        index = state.hidden[..., 0].long().clamp_max(length - 1)  # (B, N)
        said = memory.values.gather(1, index[..., None].expand(-1, -1, 2)).long()
        logits = 9.0 * torch.nn.functional.one_hot(said[..., 0], self.vocabulary_size)
        logits[..., EOS] += 1  # otherwise it ends
        weights = torch.nn.functional.one_hot(said[..., 1], self.places).float()
        alignment = state.alignment.advance(weights)
        return logits, DecoderState(state.hidden + 1, state.context, alignment)


def _table_memory(utterances: int, vocabulary_size: int, limit: int, seed: int = 0) -> Memory:
    generator = torch.Generator().manual_seed(seed)
    rows = vocabulary_size ** (limit + 1)
    values = 2 * torch.randn(utterances, rows, vocabulary_size, generator=generator)
    return Memory(values, torch.ones(utterances, rows, dtype=torch.bool), values[..., :1])


def _scripted_memory(*scripts: list[tuple[int, int]]) -> Memory:
    longest = max(map(len, scripts)) + 1
    values = torch.tensor(
        [script + [(EOS, script[-1][1])] * (longest - len(script)) for script in scripts]
    ).float()
    return Memory(values, torch.ones(values.shape[:2], dtype=torch.bool), values)


def _all_texts(values: Tensor, limit: int) -> dict[tuple[int, ...], list[float]]:
    """Return all texts of at most `limit` tokens, with the terms of their log-probability."""
    vocabulary_size = values.size(-1)
    log_probabilities = values.log_softmax(-1)
    found = {}
    for length in range(limit + 1):
        for text in itertools.product(range(2, vocabulary_size), repeat=length):
            number, summands = EOS, []
            for token in (*text, EOS):
                summands.append(float(log_probabilities[number, token]))
                number = number * vocabulary_size + token
            found[text] = summands
    return found


class DoubleAttention(AdditiveAttention):
    """Make the start state in float64, so that rounding does not grow in a random decoder."""

    def start(self, memory: Memory, hypotheses: int = 1) -> Alignment:
        alignment = super().start(memory, hypotheses)
        return Alignment(alignment.weights.double(), alignment.cumulative.double())


def _real(batch: int, length: int, seed: int = 0) -> tuple[Decoder, Memory]:
    """Return a small random decoder with large logits that favour <eos>, and annotations."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        attention = DoubleAttention(12, 8, 6, location_features=2)
        decoder = Decoder(attention, 9, 8, DecoderSettings(5, 12, 7))
        decoder.double().eval()
        for name, parameter in decoder.named_parameters():
            parameter.mul_(6 if name.startswith(("output", "attention")) else 3)
        decoder.output.bias[EOS] += 2
        values = 2 * torch.randn(batch, length, 8).double()
        lengths = torch.randint(length // 2, length + 1, (batch, 1))
        mask = torch.arange(length) < lengths
        return decoder, decoder.prepare(Annotations(values * mask[..., None], mask))


@pytest.fixture
def toys() -> SimpleNamespace:
    """The toys above as a namespace, so that test files need not import each other."""
    kit: dict[str, Callable[..., Any]] = {
        "TableDecoder": TableDecoder,
        "ScriptedDecoder": ScriptedDecoder,
        "table_memory": _table_memory,
        "scripted_memory": _scripted_memory,
        "all_texts": _all_texts,
        "real": _real,
        "bound": TorchDecoder,
    }
    return SimpleNamespace(**kit)
