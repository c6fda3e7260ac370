"""Inference in NumPy, on the CPU, for the speech models that it supports."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asr.activations import log_softmax
from asr.audio.mel import SECONDS_PER_FRAME
from asr.models.settings import AttentionSettings, SpeechSettings
from asr.runtime.engine import EncodedAudio, PaddedAudio
from asr.runtime.numpy_runtime.attention import Memory
from asr.runtime.numpy_runtime.decoder import (
    DecoderLayers,
    NumpyDecoder,
    Step,
    forced,
    mean,
    unsupported,
)
from asr.runtime.numpy_runtime.encoder import Encoder, NumpyEncoder
from asr.runtime.numpy_runtime.features import build_features
from asr.runtime.numpy_runtime.layers import Array, Linear, Weights, within
from asr.runtime.numpy_runtime.shapes import fitting, weight_shapes
from asr.search.trees import change, put


class NumpyEngine:
    """An `asr.runtime.engine.Engine` in NumPy; equal to torch's to 1e-4."""

    def __init__(
        self,
        settings: SpeechSettings,
        weights: Weights,
        vocabulary_size: int,
        encoder: Encoder | None = None,
        step: Step | None = None,
    ) -> None:
        """Take the weights of a model folder.

        encoder, step: compute these parts in place of NumPy.

        Raises:
            UserError: the settings name an unknown public encoder.
            ValueError: the settings are not supported (see `unsupported`), impossible, or not
                those of the weights.
        """
        if (reason := unsupported(settings.attention, settings.decoder)) is not None:
            raise ValueError(f"{reason} needs torch")
        self.settings = settings
        self.vocabulary_size = vocabulary_size
        self._features = build_features(settings)
        wanted = weight_shapes(settings, vocabulary_size, self._features.size)
        fitting(weights.shapes, wanted)
        self._mean = np.asarray(weights["normalizer.mean"], np.float32)
        self._deviation = np.asarray(weights["normalizer.std"], np.float32)
        self._encoder = encoder or NumpyEncoder(weights, settings)
        self._frames_per_annotation = _frames_per_annotation(settings)
        self._ctc = Linear.of(weights, "ctc.output") if settings.ctc.subframes else None
        self._decoder = DecoderLayers(weights, settings.attention, settings.decoder, step)

    @property
    def seconds_per_annotation(self) -> float:
        """See `Engine.seconds_per_annotation`."""
        return self._frames_per_annotation * self._features.seconds_per_frame

    @property
    def has_ctc(self) -> bool:
        """See `Engine.has_ctc`."""
        return self._ctc is not None

    def encode(self, audio: PaddedAudio) -> EncodedAudio:
        """See `Engine.encode`."""
        given = [row[:length] for row, length in zip(audio.samples, audio.lengths, strict=True)]
        features = [self._normalised(self._features(samples)) for samples in given]
        values, lengths = self._encoder(features)
        mask = within(lengths, values.shape[1])
        subframes = self.settings.ctc.subframes
        ctc = None
        if self._ctc is not None:
            logits = self._ctc(values)  # (B, T, subframes · V)
            ctc = log_softmax(logits.reshape(len(values), values.shape[1] * subframes, -1))
        if self.settings.attention.silence_mask:
            mask = mask & self._pooled(audio.speech, values.shape[1])
        memory = self._decoder.attention.prepare(values, mask)
        return EncodedAudio(memory, lengths, ctc, lengths * subframes, features)

    def put(self, memory: Memory, rows: NDArray[np.int64], other: Memory) -> Memory:
        """See `Engine.put`."""
        return change(lambda one, two: put(one, rows, two), memory, other)

    def decoder(self, memory: Memory) -> NumpyDecoder:
        """See `Engine.decoder`."""
        return NumpyDecoder(self._decoder, memory)

    def decoder_without_audio(self, memory: Memory) -> NumpyDecoder:
        """See `Engine.decoder_without_audio`."""
        values = mean(memory)[:, None]  # (B, 1, E)
        mask = np.ones(values.shape[:2], bool)
        return self.decoder(self._decoder.attention.prepare(values, mask))

    def force(
        self, memory: Memory, tokens: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `Engine.force`."""
        return forced(self._decoder, memory, tokens)

    def windowed(self, attention: AttentionSettings) -> NumpyEngine:
        """See `Engine.windowed`."""
        twin = copy.copy(self)
        twin._decoder = self._decoder.windowed(attention)
        return twin

    def _normalised(self, features: Array) -> Array:
        """Normalise features (F, size); see `asr.audio.features.Normalizer`."""
        if self._features.utterance_mean and len(features):
            features = features - features.mean(0)
        return (features - self._mean) / self._deviation

    def _pooled(self, speech: NDArray[np.bool_], annotations: int) -> NDArray[np.bool_]:
        """Return which annotations have speech, (B, annotations), of 10 ms frames (B, F)."""
        frames = round(self.seconds_per_annotation / SECONDS_PER_FRAME)
        padded = np.zeros((len(speech), annotations * frames), bool)
        padded[:, : speech.shape[1]] = speech[:, : padded.shape[1]]
        return np.asarray(padded.reshape(len(speech), annotations, frames).any(-1))


def _frames_per_annotation(settings: SpeechSettings) -> int:
    encoder = settings.encoder
    front = 1 if encoder.kind == "frozen" else 4
    return front * (2 if encoder.layers_before_reduction < encoder.layers else 1)
