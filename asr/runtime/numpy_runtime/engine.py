"""Inference in NumPy, on the CPU, for the speech models that it supports."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from asr.audio.cache import ContentCache
from asr.audio.mel import HOP_MS, SECONDS_PER_FRAME, WINDOW_MS, mel_filters
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.lazy import Lazy
from asr.models.encoders.public import ENCODERS, open_frames
from asr.models.encoders.public import SECONDS_PER_FRAME as PUBLIC_SECONDS_PER_FRAME
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
from asr.runtime.numpy_runtime.layers import (
    Array,
    BiLSTM,
    Convolution,
    LayerNorm,
    Linear,
    Weights,
    log_softmax,
    reversal,
    within,
)
from asr.runtime.numpy_runtime.shapes import fitting, weight_shapes
from asr.search.trees import change, put

FLOOR = 1e-10  # as in `asr.audio.features.LogMel`
Lengths = NDArray[np.int64]


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
        self._features = _features(settings)
        wanted = weight_shapes(settings, vocabulary_size, self._features.size)
        fitting(weights, wanted)
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


class _Features(Protocol):
    size: int
    utterance_mean: bool

    @property
    def seconds_per_frame(self) -> float:
        """Seconds from one frame to the next."""

    def __call__(self, samples: Array) -> Array:
        """Return features (F, size) of samples (S,)."""


def _features(settings: SpeechSettings) -> _Features:
    if settings.encoder.kind == "frozen":
        return _PublicFrames(settings.encoder.public)
    return _LogMel(settings.features.mels, settings.features.utterance_mean)


class _LogMel:
    """`asr.audio.features.LogMel` of one recording."""

    seconds_per_frame = SECONDS_PER_FRAME

    def __init__(self, mels: int, utterance_mean: bool) -> None:
        self.size = mels
        self.utterance_mean = utterance_mean
        self._hop = SAMPLE_RATE * HOP_MS // 1000
        size = SAMPLE_RATE * WINDOW_MS // 1000
        self._fft_size = 1 << (size - 1).bit_length()
        places = np.arange(size) / size
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * places)).astype(np.float32)  # periodic Hann
        self._filters = mel_filters(SAMPLE_RATE, self._fft_size, mels).T.copy()

    def __call__(self, samples: Array) -> Array:
        """See `_Features`."""
        if len(samples) < len(self._window):
            return np.zeros((0, self._filters.shape[1]), np.float32)
        frames = sliding_window_view(samples, len(self._window))[:: self._hop]  # (F, window)
        spectrum = np.fft.rfft(frames * self._window, n=self._fft_size)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        mels = power.astype(np.float32) @ self._filters
        features: Array = np.log(np.maximum(mels, np.float32(FLOOR)))
        return features


class _PublicFrames:
    """Frames of a public encoder, which is loaded on first use."""

    seconds_per_frame = PUBLIC_SECONDS_PER_FRAME
    utterance_mean = False

    def __init__(self, name: str) -> None:
        if name not in ENCODERS:
            raise UserError(f"encoder.public = {name!r} is not one of: {', '.join(ENCODERS)}")
        self.name = name
        self.size = ENCODERS[name].size
        self._cache: Lazy[ContentCache] = Lazy(lambda: open_frames(name))

    def __call__(self, samples: Array) -> Array:
        """See `_Features`."""
        return self._cache()(samples)


class Encoder(Protocol):
    """What turns features into annotations."""

    def __call__(self, features: Sequence[Array]) -> tuple[Array, Lengths]:
        """Annotate B recordings, features (F, size) each → (B, T, E), 0 beyond lengths (B,)."""


def _frames_per_annotation(settings: SpeechSettings) -> int:
    encoder = settings.encoder
    front = 1 if encoder.kind == "frozen" else 4
    return front * (2 if encoder.layers_before_reduction < encoder.layers else 1)


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
