"""The decoder of a speech model in NumPy, as a `SearchDecoder`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from asr.activations import log_softmax, sigmoid
from asr.models.settings import AttentionSettings, DecoderSettings
from asr.products import product
from asr.runtime.numpy_runtime.attention import (
    Alignment,
    Group,
    Memory,
    NumpyAttention,
    groups_of,
)
from asr.runtime.numpy_runtime.layers import Array, Linear, Weights
from asr.search.contract import Booleans, Integers, Stepped
from asr.search.trees import reorder, spread, take
from asr.text.vocabulary import EOS


def unsupported(attention: AttentionSettings, decoder: DecoderSettings) -> str | None:
    """Return the first setting of a model that needs torch; None if it needs none."""
    plain = DecoderSettings()
    reasons = {
        f'attention.kind = "{attention.kind}"': attention.kind != "additive",
        f"attention.heads = {attention.heads}": attention.heads != 1,
        f'attention.normalizer = "{attention.normalizer}"': attention.normalizer != "softmax",
    }
    for name in ("cell", "layers", "attend", "input_feeding", "layer_norm"):
        value = getattr(decoder, name)
        reasons[f"decoder.{name} = {value}"] = value != getattr(plain, name)
    return next((reason for reason, applies in reasons.items() if applies), None)


class NumpyState(NamedTuple):
    """As `asr.models.state.DecoderState`: hidden (B, N, H), and the alignment."""

    hidden: Array
    alignment: Alignment


class Step(Protocol):
    """What computes a step of the decoder."""

    def __call__(
        self, tokens: Integers, state: NumpyState, memory: Memory
    ) -> tuple[Array, NumpyState]:
        """Return log-probabilities (B, N, V) after last tokens (B, N), and the next state."""


class DecoderLayers:
    """The layers of `asr.models.decoder.Decoder`: one GRU with attention before it."""

    def __init__(
        self,
        weights: Weights,
        attention: AttentionSettings,
        settings: DecoderSettings,
        given_step: Step | None = None,
    ) -> None:
        """Take the weights of "decoder" of a model folder.

        given_step: computes steps in place of NumPy; see `is_given`.
        """
        self._given_step = given_step
        self.attention = NumpyAttention(weights, attention)
        self.settings = settings
        self._gates = 3 * settings.state_size
        gates, self._gates_bias = Linear.of(weights, "decoder.state_gates")
        self._from_state = np.concatenate([self.attention.query, gates], axis=1)  # (H, A + 3H)
        self._initial: Linear | None = None
        if settings.initial != "zero":
            self._initial = Linear.of(weights, "decoder.initial")
        embedding = np.asarray(weights["decoder.embedding.weight"], np.float32)  # (V, M)
        if settings.tied:
            bias = np.asarray(weights["decoder.output.bias"], np.float32)
            self._output = Linear(np.ascontiguousarray(embedding.T), bias)
        else:
            self._output = Linear.of(weights, "decoder.output")
        self._join_products(weights, embedding)

    def _join_products(self, weights: Weights, embedding: Array) -> None:
        """Join what gates (3H) and readout (R) take from the same input: context, and token."""
        settings = self.settings
        context, _ = Linear.of(weights, "decoder.context_gates")  # (E, 3H)
        matrix, bias = Linear.of(weights, "decoder.readout")  # (H + M + E, R)
        ends = np.cumsum([settings.state_size, len(embedding[0]) * settings.readout_token])
        self._readout, from_token, from_context = np.split(matrix, ends)
        if not settings.readout_context:
            from_context = np.zeros((len(context), len(bias)), np.float32)
        self._context = np.concatenate([context, from_context], axis=1)  # (E, 3H + R)
        gates = np.zeros((len(embedding), self._gates), np.float32)
        if settings.token_to_cell:
            gates = Linear.of(weights, "decoder.token_gates")(embedding)
        readout = np.tile(bias, (len(embedding), 1))
        if settings.readout_token:
            readout += embedding @ from_token
        self._token = np.concatenate([gates, readout], axis=1)  # (V, 3H + R)

    def windowed(self, attention: AttentionSettings) -> DecoderLayers:
        """Return the same layers with the window of other settings.

        Raises:
            ValueError: it extends to one side only.
        """
        twin = copy.copy(self)
        twin.attention = self.attention.windowed(attention)
        twin._given_step = None
        return twin

    def start(self, memory: Memory) -> NumpyState:
        """Return the state before the first step, with N = 1."""
        size = self.settings.state_size
        if self._initial is None:
            hidden = np.zeros((len(memory.values), size), np.float32)
        elif self.settings.initial == "mean":
            hidden = np.tanh(self._initial(mean(memory)))
        else:
            backward = memory.values[:, 0, memory.values.shape[2] // 2 :]
            hidden = np.tanh(self._initial(backward))
        return NumpyState(hidden[:, None], self.attention.start(memory))

    def is_given(self, hypotheses: int) -> bool:
        """Whether a step of so many hypotheses of each recording is computed by `given_step`.

        Of several, NumPy is the faster one: it leaves out those that have ended, and projects the
        annotations once. A window that is set later is computed by NumPy as well.
        """
        return self._given_step is not None and hypotheses == 1

    def projected(self, memory: Memory) -> Array:
        """Return the annotations' part of gates and readout, (B, T, 3H + R).

        Weighted, they give the products of the context: with several hypotheses and fewer
        annotations than values of one, this is less work than products at each step; with one
        recording it is one large product in place of many with a vector, which are slower.
        """
        return Linear(self._context, np.zeros(1, np.float32))(memory.values)

    def step(
        self,
        tokens: Integers,
        state: NumpyState,
        memory: Memory,
        projected: Array | None = None,
        alive: Booleans | None = None,
    ) -> tuple[Array, NumpyState]:
        """Compute a step: last tokens (B, N) → log-probabilities (B, N, V) and the next state.

        projected: of the memory, if it is known. alive: see `SearchDecoder.step`.
        """
        if self._given_step is not None and self.is_given(tokens.shape[1]):
            return self._given_step(tokens, state, memory)
        if alive is None or alive.all():
            alive = np.ones(tokens.shape, np.bool_)
            last, hidden = tokens.reshape(-1), state.hidden.reshape(-1, state.hidden.shape[-1])
        else:
            last, hidden = tokens[alive], state.hidden[alive]  # (F,), (F, H)
        groups = groups_of(alive, memory)
        from_state = product(hidden, self._from_state)
        query, old = np.split(from_state, [self.attention.query.shape[1]], axis=1)
        old += self._gates_bias
        alignment = self.attention(query, memory, state.alignment, groups)
        sums = self._sums(alignment.weights, memory, projected, groups)  # (F, 3H + R)
        sums += self._token[last]
        hidden = _gru(sums[:, : self._gates], old, hidden)
        readout = sums[:, self._gates :] + product(hidden, self._readout)
        if self.settings.readout == "maxout":
            readout = np.maximum(readout[:, ::2], readout[:, 1::2])
        else:
            np.tanh(readout, out=readout)
        log_probs = log_softmax(self._output(readout))
        return spread(log_probs, alive), NumpyState(spread(hidden, alive), alignment)

    def _sums(
        self, weights: Array, memory: Memory, projected: Array | None, groups: Sequence[Group]
    ) -> Array:
        """Return the context's part of gates and readout, (F, 3H + R)."""
        given = memory.values if projected is None else projected
        sums = [
            product(rows, values)
            for group in groups
            for rows, values in zip(
                weights[group.utterances, group.slots, : group.length],
                given[group.utterances, : group.length],
                strict=True,
            )
        ]
        joined = np.concatenate(sums) if len(sums) > 1 else sums[0]
        return joined if projected is not None else product(joined, self._context)


class NumpyDecoder:
    """An `asr.search.contract.SearchDecoder` in NumPy."""

    def __init__(
        self, layers: DecoderLayers, memory: Memory, projected: Array | None = None
    ) -> None:
        """Bind the layers to the memory of one batch; projected: of it, if it is known."""
        self._layers = layers
        self._memory = memory
        self._projected = projected

    @property
    def utterances(self) -> int:
        """See `SearchDecoder.utterances`."""
        return len(self._memory.mask)

    def start(self) -> NumpyState:
        """See `SearchDecoder.start`."""
        return self._layers.start(self._memory)

    def step(
        self, tokens: Integers, state: NumpyState, alive: Booleans | None = None
    ) -> Stepped[NumpyState]:
        """See `SearchDecoder.step`."""
        batch, hypotheses = tokens.shape
        pays = batch == 1 or hypotheses > 1 or self._memory.values.shape[1] == 1
        if pays and self._projected is None and not self._layers.is_given(hypotheses):
            self._projected = self._layers.projected(self._memory)  # kept for the next steps
        log_probs, state = self._layers.step(tokens, state, self._memory, self._projected, alive)
        return Stepped(log_probs, state.alignment.weights, state)

    def select(self, state: NumpyState, parents: Integers) -> NumpyState:
        """See `SearchDecoder.select`."""
        return reorder(state, parents)

    def take(self, state: NumpyState, rows: Integers) -> tuple[NumpyDecoder, NumpyState]:
        """See `SearchDecoder.take`."""
        projected = None if self._projected is None else self._projected[rows]
        decoder = NumpyDecoder(self._layers, take(self._memory, rows), projected)
        return decoder, take(state, rows)


def forced(
    layers: DecoderLayers, memory: Memory, tokens: Sequence[int]
) -> tuple[Array, NDArray[np.float32]]:
    """Read a known text; see `asr.runtime.teacher_forcing.teacher_forced_weights`."""
    state, rows, log_probabilities = layers.start(memory), [], []
    for previous, token in zip([EOS, *tokens], [*tokens, EOS], strict=True):
        log_probs, state = layers.step(np.array([[previous]]), state, memory)
        rows.append(state.alignment.weights[0, 0])
        log_probabilities.append(log_probs[0, 0, token])
    return np.stack(rows), np.array(log_probabilities)


def mean(memory: Memory) -> Array:
    """Return the mean (B, E) of the allowed annotations; 0 if there are none."""
    counts = np.maximum(memory.mask.sum(1, keepdims=True), 1).astype(np.float32)
    found: Array = (memory.values * memory.mask[:, :, None]).sum(1) / counts
    return found


def _gru(new: Array, old: Array, hidden: Array) -> Array:
    """Update a gated recurrent unit; see `asr.models.cells.gru`."""
    size = hidden.shape[-1]
    gates = sigmoid(new[..., : 2 * size] + old[..., : 2 * size])
    reset, update = gates[..., :size], gates[..., size:]
    candidate = np.tanh(new[..., 2 * size :] + reset * old[..., 2 * size :])
    updated: Array = candidate + update * (hidden - candidate)
    return updated
