"""The decoder of a speech model in NumPy, as a `SearchDecoder`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.models.settings import AttentionSettings, DecoderSettings
from asr.runtime.light.attention import Alignment, LightAttention, Memory
from asr.runtime.light.layers import Array, Linear, Weights, log_softmax, sigmoid
from asr.search.contract import Integers, Stepped
from asr.search.trees import reorder, take
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


class LightState(NamedTuple):
    """As `asr.models.state.DecoderState`: hidden (B, N, H), and the alignment."""

    hidden: Array
    alignment: Alignment


class DecoderLayers:
    """The layers of `asr.models.decoder.Decoder`: one GRU with attention before it."""

    def __init__(
        self, weights: Weights, attention: AttentionSettings, settings: DecoderSettings
    ) -> None:
        """Take the weights of "decoder" of a model folder."""
        self.attention = LightAttention(weights, attention)
        self.settings = settings
        embedding = np.asarray(weights["decoder.embedding.weight"], np.float32)  # (V, M)
        self._embedding = embedding
        self._token_gates: Array | None = None
        if settings.token_to_cell:
            self._token_gates = Linear.of(weights, "decoder.token_gates")(embedding)  # (V, 3H)
        self._context_gates = Linear.of(weights, "decoder.context_gates")
        self._state_gates = Linear.of(weights, "decoder.state_gates")
        self._initial: Linear | None = None
        if settings.initial != "zero":
            self._initial = Linear.of(weights, "decoder.initial")
        self._readout = Linear.of(weights, "decoder.readout")
        if settings.tied:
            bias = np.asarray(weights["decoder.output.bias"], np.float32)
            self._output = Linear(np.ascontiguousarray(embedding.T), bias)
        else:
            self._output = Linear.of(weights, "decoder.output")

    def windowed(self, attention: AttentionSettings) -> DecoderLayers:
        """Return the same layers with the window of other settings.

        Raises:
            ValueError: it extends to one side only.
        """
        twin = copy.copy(self)
        twin.attention = self.attention.windowed(attention)
        return twin

    def start(self, memory: Memory) -> LightState:
        """Return the state before the first step, with N = 1."""
        size = self.settings.state_size
        if self._initial is None:
            hidden = np.zeros((len(memory.values), size), np.float32)
        elif self.settings.initial == "mean":
            hidden = np.tanh(self._initial(mean(memory)))
        else:
            backward = memory.values[:, 0, memory.values.shape[2] // 2 :]
            hidden = np.tanh(self._initial(backward))
        return LightState(hidden[:, None], self.attention.start(memory))

    def step(self, tokens: Integers, state: LightState, memory: Memory) -> tuple[Array, LightState]:
        """Compute a step: last tokens (B, N) → log-probabilities (B, N, V) and the next state."""
        context, alignment = self.attention(state.hidden, memory, state.alignment)
        gates = self._context_gates(context)
        if self._token_gates is not None:
            gates += self._token_gates[tokens]
        hidden = _gru(gates, self._state_gates(state.hidden), state.hidden)
        given = [hidden]
        if self.settings.readout_token:
            given.append(self._embedding[tokens])
        if self.settings.readout_context:
            given.append(context)
        readout = self._readout(np.concatenate(given, axis=-1))
        if self.settings.readout == "maxout":
            readout = readout.reshape(*readout.shape[:-1], -1, 2).max(-1)
        else:
            np.tanh(readout, out=readout)
        return log_softmax(self._output(readout)), LightState(hidden, alignment)


class LightDecoder:
    """An `asr.search.contract.SearchDecoder` in NumPy."""

    def __init__(self, layers: DecoderLayers, memory: Memory) -> None:
        """Bind the layers to the memory of one batch."""
        self._layers = layers
        self._memory = memory

    @property
    def utterances(self) -> int:
        """See `SearchDecoder.utterances`."""
        return len(self._memory.mask)

    def start(self) -> LightState:
        """See `SearchDecoder.start`."""
        return self._layers.start(self._memory)

    def step(self, tokens: Integers, state: LightState) -> Stepped[LightState]:
        """See `SearchDecoder.step`."""
        log_probs, state = self._layers.step(tokens, state, self._memory)
        return Stepped(log_probs, state.alignment.weights, state)

    def select(self, state: LightState, parents: Integers) -> LightState:
        """See `SearchDecoder.select`."""
        return reorder(state, parents)

    def take(self, state: LightState, rows: Integers) -> tuple[LightDecoder, LightState]:
        """See `SearchDecoder.take`."""
        return LightDecoder(self._layers, take(self._memory, rows)), take(state, rows)


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
