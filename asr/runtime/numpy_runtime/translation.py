"""Translation in NumPy, on the CPU, for the models that it supports."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asr.models.settings import TranslationSettings
from asr.runtime.engine import EncodedTexts
from asr.runtime.numpy_runtime import decoder
from asr.runtime.numpy_runtime.attention import Memory
from asr.runtime.numpy_runtime.decoder import DecoderLayers, NumpyDecoder, Step
from asr.runtime.numpy_runtime.layers import Array, BiLSTM, Weights, reversal, within
from asr.runtime.numpy_runtime.shapes import fitting, text_weight_shapes


def unsupported(settings: TranslationSettings) -> str | None:
    """Return the first setting of a model that needs torch; None if it needs none."""
    if settings.encoder.attention_layers:
        return f"encoder.attention_layers = {settings.encoder.attention_layers}"
    if settings.encoder.cell != "lstm":
        return f"encoder.cell = {settings.encoder.cell}"
    return decoder.unsupported(settings.attention, settings.decoder)


class TextEncoder(Protocol):
    """What computes the encoder."""

    def __call__(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> Array:
        """Return annotations (B, T, E) of tokens (B, T); arbitrary ones beyond lengths (B,)."""


class NumpyTextEncoder:
    """A `TextEncoder` in NumPy: embedding and BiLSTMs."""

    def __init__(self, weights: Weights, settings: TranslationSettings) -> None:
        owner = "decoder" if settings.joint_embedding else "encoder"
        self._embedding = np.asarray(weights[f"{owner}.embedding.weight"], np.float32)
        names = [f"encoder.rest.{at}" for at in range(settings.encoder.layers - 1)]
        self._first = BiLSTM.of(weights, "encoder.first")
        self._rest = [BiLSTM.of(weights, name) for name in names]

    def __call__(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> Array:
        """See `TextEncoder`."""
        order = reversal(lengths, tokens.shape[1])
        hidden = self._first(self._embedding[tokens], order)
        for layer in self._rest:
            hidden = hidden + layer(hidden, order)
        return hidden


class NumpyTextEngine:
    """An `asr.runtime.engine.TextEngine` in NumPy; equal to torch's to 1e-4."""

    def __init__(
        self,
        settings: TranslationSettings,
        weights: Weights,
        source_size: int,
        target_size: int,
        encoder: TextEncoder | None = None,
        step: Step | None = None,
    ) -> None:
        """Take the weights of a model folder, with vocabularies of these sizes.

        encoder, step: compute these parts in place of NumPy.

        Raises:
            ValueError: the settings are not supported (see `unsupported`), impossible, or not
                those of the weights.
        """
        if (reason := unsupported(settings)) is not None:
            raise ValueError(f"{reason} needs torch")
        fitting(weights.shapes, text_weight_shapes(settings, source_size, target_size))
        self.vocabulary_sizes = source_size, target_size
        self._encoder = encoder or NumpyTextEncoder(weights, settings)
        self._decoder = DecoderLayers(weights, settings.attention, settings.decoder, step)

    def encode(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> EncodedTexts:
        """See `TextEngine.encode`."""
        values, mask = self._encoder(tokens, lengths), within(lengths, tokens.shape[1])
        return EncodedTexts(self._decoder.attention.prepare(values, mask), lengths)

    def decoder(self, memory: Memory) -> NumpyDecoder:
        """See `TextEngine.decoder`."""
        return NumpyDecoder(self._decoder, memory)
