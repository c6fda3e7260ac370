"""The layers of speech models in NumPy, for inference: float32, equal to torch's to 1e-5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]
Weights = Mapping[str, NDArray[Any]]

NORM_EPSILON = 1e-5  # of torch.nn.LayerNorm
STEPS_AT_ONCE = 32  # of an LSTM, whose inputs are multiplied together: gates stay in the cache


def sigmoid(values: Array) -> Array:
    """Return σ(values); they are overwritten."""
    # σ(x) = (1 + tanh(x / 2)) / 2 does not overflow.
    values *= np.float32(0.5)
    np.tanh(values, out=values)
    values += np.float32(1)
    values *= np.float32(0.5)
    return values


def softmax(values: Array) -> Array:
    """Return the softmax over the last axis; values are overwritten, −∞ gives 0."""
    values -= values.max(-1, keepdims=True)
    np.exp(values, out=values)
    values /= values.sum(-1, keepdims=True)
    return values


def log_softmax(values: Array) -> Array:
    """Return the log-softmax over the last axis; values are overwritten."""
    values -= values.max(-1, keepdims=True)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    return values


def within(lengths: NDArray[np.int64], longest: int) -> NDArray[np.bool_]:
    """Return (B, longest), True inside each length of lengths (B,)."""
    inside: NDArray[np.bool_] = np.arange(longest) < lengths[:, None]
    return inside


class Linear(NamedTuple):
    """x W + b: matrix (I, O), contiguous; bias (O,) or 0."""

    matrix: Array
    bias: Array

    @classmethod
    def of(cls, weights: Weights, name: str) -> Linear:
        """Take the layer of a name; without a bias there, it is 0."""
        matrix = np.ascontiguousarray(weights[f"{name}.weight"].T, np.float32)
        bias = weights.get(f"{name}.bias", np.zeros(1))
        return cls(matrix, np.asarray(bias, np.float32))

    def __call__(self, values: Array) -> Array:
        """Return (…, O) of values (…, I), as one matrix product."""
        rows = values.reshape(-1, values.shape[-1]) @ self.matrix
        rows += self.bias
        return rows.reshape(*values.shape[:-1], -1)


class LayerNorm(NamedTuple):
    """Layer normalisation: scale and shift (E,)."""

    scale: Array
    shift: Array

    @classmethod
    def of(cls, weights: Weights, name: str) -> LayerNorm:
        """Take the layer of a name."""
        parts = (weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return cls(*(np.asarray(part, np.float32) for part in parts))

    def __call__(self, values: Array) -> Array:
        """Normalise values (…, E)."""
        centred: Array = values - values.mean(-1, keepdims=True)
        variance = np.square(centred).mean(-1, keepdims=True)
        centred /= np.sqrt(variance + np.float32(NORM_EPSILON))
        centred *= self.scale
        centred += self.shift
        return centred


class Convolution(NamedTuple):
    """A 3 × 3 convolution of stride 2 with a border of one: matrix (9·I, O), bias (O,)."""

    matrix: Array
    bias: Array

    @classmethod
    def of(cls, weights: Weights, name: str) -> Convolution:
        """Take the layer of a name, whose weight is (O, I, 3, 3)."""
        weight = np.asarray(weights[f"{name}.weight"], np.float32)
        matrix = np.ascontiguousarray(weight.transpose(2, 3, 1, 0).reshape(-1, len(weight)))
        return cls(matrix, np.asarray(weights[f"{name}.bias"], np.float32))

    def __call__(self, values: Array) -> Array:
        """Convolve values (B, F, M, I) → (B, ⌈F/2⌉, ⌈M/2⌉, O)."""
        padded = np.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)))
        windows = sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]  # (…, I, 3, 3)
        patches = windows.transpose(0, 1, 2, 4, 5, 3)
        rows = patches.reshape(-1, len(self.matrix)) @ self.matrix
        rows += self.bias
        return rows.reshape(*patches.shape[:3], -1)


class BiLSTM(NamedTuple):
    """An LSTM in either direction: ahead and back."""

    ahead: _LSTM
    back: _LSTM

    @classmethod
    def of(cls, weights: Weights, name: str) -> BiLSTM:
        """Take the layer of a name."""
        return cls(_LSTM.of(weights, f"{name}.ahead"), _LSTM.of(weights, f"{name}.back"))

    def __call__(self, inputs: Array, order: NDArray[np.int64]) -> Array:
        """Read inputs (B, T, I) both ways → (B, T, 2H); order: of `reversal`."""
        back = self.back(np.take_along_axis(inputs, order, 1))
        return np.concatenate([self.ahead(inputs), np.take_along_axis(back, order, 1)], axis=-1)


def reversal(lengths: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Return the order (B, T, 1) that reverses each utterance within its own length."""
    places = np.arange(longest)
    ends = lengths[:, None]
    return np.where(places < ends, ends - 1 - places, places)[:, :, None]


class _LSTM(NamedTuple):
    """A long short-term memory; gates in the order input, forget, output, candidate.

    The first three are halved: σ(x) = (1 + tanh(x / 2)) / 2, so one tanh serves all four.
    """

    inputs: Linear
    states: Array  # (H, 4H)

    @classmethod
    def of(cls, weights: Weights, name: str) -> _LSTM:
        inputs, states = (
            _gates_in_order(weights[f"{name}.weight_{part}_l0"]) for part in ("ih", "hh")
        )
        biases = (_gates_in_order(weights[f"{name}.bias_{part}_l0"]) for part in ("ih", "hh"))
        return cls(Linear(inputs, sum(biases, np.zeros(1, np.float32))), states)

    def __call__(self, inputs: Array) -> Array:
        """Return the states (B, T, H) of inputs (B, T, I)."""
        size = len(self.states)
        states = np.empty((inputs.shape[1], len(inputs), size), np.float32)
        hidden = memory = np.zeros((len(inputs), size), np.float32)
        product = np.empty((len(inputs), 4 * size), np.float32)
        for start in range(0, len(states), STEPS_AT_ONCE):
            several = slice(start, start + STEPS_AT_ONCE)
            gates = self.inputs(inputs[:, several].swapaxes(0, 1))  # (T, B, 4H)
            for step, now in zip(states[several], gates, strict=True):
                now += np.matmul(hidden, self.states, out=product)
                np.tanh(now, out=now)
                sigmoids = now[:, : 3 * size]
                sigmoids *= np.float32(0.5)
                sigmoids += np.float32(0.5)
                memory = now[:, size : 2 * size] * memory
                memory += now[:, :size] * now[:, 3 * size :]
                np.multiply(now[:, 2 * size : 3 * size], np.tanh(memory), out=step)
                hidden = step
        return states.swapaxes(0, 1)


def _gates_in_order(values: NDArray[Any]) -> Array:
    """Return gates (4H, …) of torch's order (input, forget, candidate, output) as `_LSTM`'s."""
    entry, forget, candidate, output = np.split(np.asarray(values, np.float32), 4)
    ordered = np.concatenate([entry / 2, forget / 2, output / 2, candidate])
    return np.ascontiguousarray(ordered.T)
