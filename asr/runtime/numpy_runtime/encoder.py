"""The encoder of a speech model in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asr.models.settings import SpeechSettings
from asr.runtime.numpy_runtime.layers import (
    Array,
    BiLSTM,
    Convolution,
    LayerNorm,
    Linear,
    Weights,
    reversal,
    within,
)

Lengths = NDArray[np.int64]


class Encoder(Protocol):
    """What turns features into annotations."""

    def __call__(self, features: Sequence[Array]) -> tuple[Array, Lengths]:
        """Annotate B recordings, features (F, size) each → (B, T, E), 0 beyond lengths (B,)."""


class NumpyEncoder:
    """`asr.models.encoders.acoustic.AcousticEncoder` as an `Encoder`."""

    def __init__(self, weights: Weights, settings: SpeechSettings) -> None:
        encoder, name = settings.encoder, "encoder"
        self._convolutions: list[Convolution] = []
        if encoder.kind != "frozen":
            parts = (f"{name}.front.first", f"{name}.front.second")
            self._convolutions = [Convolution.of(weights, part) for part in parts]
        self._enter = Linear.of(weights, f"{name}.enter")
        self._layers = [
            (LayerNorm.of(weights, f"{name}.norms.{at}"), BiLSTM.of(weights, f"{name}.layers.{at}"))
            for at in range(encoder.layers)
        ]
        self._before = encoder.layers_before_reduction
        self._reduce: Linear | None = None
        if self._before < encoder.layers:
            self._reduce = Linear.of(weights, f"{name}.reduce")
        self._last_norm = LayerNorm.of(weights, f"{name}.last_norm")

    def __call__(self, features: Sequence[Array]) -> tuple[Array, Lengths]:
        """See `Encoder`."""
        # Before the recurrent layers each alone, whose intermediate arrays fit into the cache.
        hidden, lengths = pad_rows([self._enter(self._convolve(each)) for each in features])
        order = reversal(lengths, hidden.shape[1])
        for at, (norm, layer) in enumerate(self._layers):
            if self._reduce is not None and at == self._before:
                hidden, lengths = self._halve(self._reduce, hidden, lengths)
                order = reversal(lengths, hidden.shape[1])
            hidden += layer(norm(hidden), order)
        values = self._last_norm(hidden) * within(lengths, hidden.shape[1])[:, :, None]
        return values, lengths

    def _convolve(self, features: Array) -> Array:
        """Apply the convolutions, if there are any, to features (F, size) → (⌈F/4⌉, ·)."""
        if not self._convolutions:
            return features
        hidden = features[None, :, :, None]  # (1, F, mels, 1)
        for layer in self._convolutions:
            hidden = layer(hidden)
            np.maximum(hidden, 0, out=hidden)
        swapped = hidden[0].swapaxes(1, 2)  # channels, then mels, as in the weights
        flat: Array = swapped.reshape(len(swapped), -1)
        return flat

    @staticmethod
    def _halve(reduce: Linear, hidden: Array, lengths: Lengths) -> tuple[Array, Lengths]:
        """Join each pair of annotations: (B, T, E) → (B, ⌈T/2⌉, E)."""
        hidden = hidden * within(lengths, hidden.shape[1])[:, :, None]
        hidden = np.pad(hidden, ((0, 0), (0, hidden.shape[1] % 2), (0, 0)))
        pairs = hidden.reshape(len(hidden), hidden.shape[1] // 2, -1)
        return reduce(pairs), (lengths + 1) // 2


def pad_rows(rows: Sequence[Array]) -> tuple[Array, Lengths]:
    """Pad B rows (T, E) with zeros → (B, longest, E), lengths (B,)."""
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.zeros((len(rows), lengths.max(), rows[0].shape[1]), np.float32)
    for row, into in zip(rows, padded, strict=True):
        into[: len(row)] = row
    return padded, lengths
