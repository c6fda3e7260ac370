"""The layers of speech models in NumPy, for inference: float32, equal to torch's to 1e-5."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from asr.products import FEW_ROWS
from asr.weights import Packed, StoredWeights

Array = NDArray[np.float32]
Weights = StoredWeights

NORM_EPSILON = 1e-5  # of torch.nn.LayerNorm
ROWS_AT_ONCE = 512  # of the inputs of an LSTM that are multiplied together; more need more memory


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
        matrix = weights.transposed(f"{name}.weight")
        bias = weights.get(f"{name}.bias", np.zeros(1))
        return cls(matrix, np.asarray(bias, np.float32))

    def __call__(self, values: Array) -> Array:
        """Return (…, O) of values (…, I), as one matrix product."""
        rows = values.reshape(-1, values.shape[-1]) @ self.matrix
        rows += self.bias
        return rows.reshape(*values.shape[:-1], -1)

    def into(self, out: Array, values: Array) -> None:
        """Write the (…, O) of values (…, I) into a contiguous array."""
        rows = out.reshape(-1, out.shape[-1])
        np.matmul(values.reshape(-1, values.shape[-1]), self.matrix, out=rows)
        rows += self.bias


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
    """A long short-term memory in either direction; both are computed in one loop.

    inputs: of each direction, (I, 4H), most of the memory and therefore packed. biases: of each,
    (4H,). states: (2, H, 4H). Gates in the order input, forget, output, candidate. The first three
    are halved: σ(x) = (1 + tanh(x / 2)) / 2, so one tanh serves all.
    """

    inputs: tuple[Packed, Packed]
    biases: tuple[Array, Array]
    states: Array

    @classmethod
    def of(cls, weights: Weights, name: str) -> BiLSTM:
        """Take the layer of a name."""
        ahead, back = f"{name}.ahead", f"{name}.back"
        inputs = [_gates(weights, f"{way}.weight_ih_l0") for way in (ahead, back)]
        biases = [
            _gates(weights, f"{way}.bias_ih_l0").unpacked()
            + _gates(weights, f"{way}.bias_hh_l0").unpacked()
            for way in (ahead, back)
        ]
        states = [_gates(weights, f"{way}.weight_hh_l0").unpacked() for way in (ahead, back)]
        return cls((inputs[0], inputs[1]), (biases[0], biases[1]), np.stack(states))

    def __call__(self, inputs: Array, order: NDArray[np.int64]) -> Array:
        """Read inputs (B, T, I) both ways → (B, T, 2H); order: of `reversal`."""
        ahead, back = self._run(inputs, order)
        return np.concatenate([ahead, _in_order(back, order)], axis=-1)

    def _run(self, inputs: Array, order: NDArray[np.int64]) -> Array:
        """Return the states (2, B, T, H), those of the second direction in its own order."""
        batch, length, _ = inputs.shape
        size = self.states.shape[1]
        found = np.empty((length, 2, batch, size), np.float32)
        hidden = memory = np.zeros((2, batch, size), np.float32)
        product = np.empty((2, batch, 4 * size), np.float32)
        at_once = max(1, ROWS_AT_ONCE // batch)
        gates = np.empty((2, min(at_once, length), batch, 4 * size), np.float32)
        to_ahead, to_back = (
            Linear(matrix.unpacked(), bias)
            for matrix, bias in zip(self.inputs, self.biases, strict=True)
        )
        for start in range(0, length, at_once):
            several = slice(start, start + at_once)
            steps = found[several]
            to_ahead.into(gates[0, : len(steps)], inputs[:, several].swapaxes(0, 1))
            back = _in_order(inputs, order[:, several])
            to_back.into(gates[1, : len(steps)], back.swapaxes(0, 1))
            for at, step in enumerate(steps):
                now = gates[:, at]
                now += _products(hidden, self.states, product)
                np.tanh(now, out=now)
                sigmoids = now[..., : 3 * size]
                sigmoids *= np.float32(0.5)
                sigmoids += np.float32(0.5)
                memory = now[..., size : 2 * size] * memory
                memory += now[..., :size] * now[..., 3 * size :]
                np.multiply(now[..., 2 * size : 3 * size], np.tanh(memory), out=step)
                hidden = step
        return found.transpose(1, 2, 0, 3)


def reversal(lengths: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Return the order (B, T, 1) that reverses each utterance within its own length."""
    places = np.arange(longest)
    ends = lengths[:, None]
    return np.where(places < ends, ends - 1 - places, places)[:, :, None]


def _in_order(values: Array, order: NDArray[np.int64]) -> Array:
    """Return the rows order (B, T', 1) of each utterance of values (B, T, I)."""
    return values[np.arange(len(values))[:, None], order[:, :, 0]]


def _products(hidden: Array, states: Array, out: Array) -> Array:
    """Multiply hidden (2, B, H) by states (2, H, G) → out (2, B, G)."""
    if hidden.shape[1] > FEW_ROWS:
        return np.matmul(hidden, states, out=out)
    np.matmul(hidden[:, :, None], states[:, None], out=out[:, :, None])
    return out


def _gates(weights: Weights, name: str) -> Packed:
    """Return weights (4H, …) in torch's order (input, forget, candidate, output) as `BiLSTM`'s."""
    size = weights.shapes[name][0] // 4
    order = [slice(at * size, (at + 1) * size) for at in (0, 1, 3, 2)]
    found = weights.packed(name, order)
    scaled = found.numbers if found.factors is None else found.factors
    scaled[..., : 3 * size] *= np.float32(0.5)
    return found


class TimeConvolution(NamedTuple):
    """A convolution in time that keeps the length: matrix (K·I, O), bias (O,).

    dilation: frames from one of the K inputs of an output to the next.
    """

    matrix: Array
    bias: Array
    width: int
    dilation: int = 1

    @classmethod
    def of(cls, weights: Weights, name: str, dilation: int = 1) -> TimeConvolution:
        """Take the layer of a name, whose weight is (O, I, K), K odd.

        Raises:
            ValueError: weight or bias is not of this form.
        """
        weight = np.asarray(weights[f"{name}.weight"], np.float32)
        bias = np.asarray(weights[f"{name}.bias"], np.float32)
        if weight.ndim != 3 or weight.shape[2] % 2 == 0 or bias.shape != weight.shape[:1]:
            raise ValueError(f"{name}.weight of shape {weight.shape}")
        outputs, inputs, width = weight.shape
        matrix = np.ascontiguousarray(weight.transpose(2, 1, 0).reshape(width * inputs, outputs))
        return cls(matrix, bias, width, dilation)

    @property
    def inputs(self) -> int:
        """I, the number of input channels."""
        return len(self.matrix) // self.width

    def __call__(self, values: Array) -> Array:
        """Convolve values (B, F, I) → (B, F, O); 0 outside."""
        border = self.width // 2 * self.dilation
        padded = np.pad(values, ((0, 0), (border, border), (0, 0)))
        windows = sliding_window_view(padded, 2 * border + 1, axis=1)[..., :: self.dilation]
        windows = windows.transpose(0, 1, 3, 2)
        rows = windows.reshape(-1, len(self.matrix)) @ self.matrix
        rows += self.bias
        return rows.reshape(*values.shape[:2], -1)
