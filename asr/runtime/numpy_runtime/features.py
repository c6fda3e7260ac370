"""Features of recordings in NumPy: log-mel, or the frames of a public encoder."""

from __future__ import annotations

from functools import cache
from typing import Final, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from asr.audio.cache import ContentCache
from asr.audio.mel import HOP_MS, MELS, SECONDS_PER_FRAME, WINDOW_MS, mel_filters
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.lazy import Lazy
from asr.models.encoders.public import SECONDS_PER_FRAME as PUBLIC_SECONDS_PER_FRAME
from asr.models.encoders.public import open_frames
from asr.models.encoders.public_weights import ENCODERS
from asr.models.settings import SpeechSettings
from asr.runtime.numpy_runtime.layers import Array

FLOOR: Final = 1e-10  # as in `asr.audio.features.LogMel`
HOP: Final = SAMPLE_RATE * HOP_MS // 1000  # samples
WINDOW: Final = SAMPLE_RATE * WINDOW_MS // 1000  # samples
FFT_SIZE: Final = 1 << (WINDOW - 1).bit_length()
LEAST_DEVIATION: Final = 0.5  # of a filter, in nats; steady noise is not amplified further


def hann_window() -> Array:
    """Return the periodic Hann window (`WINDOW`,)."""
    places = np.arange(WINDOW) / WINDOW
    return (0.5 - 0.5 * np.cos(2 * np.pi * places)).astype(np.float32)


class Features(Protocol):
    """What turns samples into features."""

    size: int
    utterance_mean: bool

    @property
    def seconds_per_frame(self) -> float:
        """Seconds from one frame to the next."""

    def __call__(self, samples: Array) -> Array:
        """Return features (F, size) of samples (S,)."""


def build_features(settings: SpeechSettings) -> Features:
    """Return the features that a model is given.

    Raises:
        UserError: the settings name an unknown public encoder.
    """
    if settings.encoder.kind == "frozen":
        return _PublicFrames(settings.encoder.public)
    return LogMel(settings.features.mels, settings.features.utterance_mean)


class LogMel:
    """`asr.audio.features.LogMel` of one recording."""

    seconds_per_frame = SECONDS_PER_FRAME

    def __init__(self, mels: int, utterance_mean: bool) -> None:
        self.size = mels
        self.utterance_mean = utterance_mean
        self._window = hann_window()
        self._filters = mel_filters(SAMPLE_RATE, FFT_SIZE, mels).T.copy()

    def __call__(self, samples: Array) -> Array:
        """See `Features`."""
        if len(samples) < len(self._window):
            return np.zeros((0, self._filters.shape[1]), np.float32)
        frames = sliding_window_view(samples, len(self._window))[::HOP]  # (F, window)
        spectrum = np.fft.rfft(frames * self._window, n=FFT_SIZE)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        mels = power.astype(np.float32) @ self._filters
        features: Array = np.log(np.maximum(mels, np.float32(FLOOR)))
        return features


def standardised_log_mel(samples: Array) -> Array:
    """Return log-mel features (F, MELS) of samples (S,), whatever the recogniser is.

    Each filter has the mean 0 and the deviation 1 in the recording.
    """
    features = _log_mel()(samples)
    if not len(features):
        return features
    features -= features.mean(0)
    features /= features.std(0).clip(LEAST_DEVIATION)
    return features


@cache
def _log_mel() -> LogMel:
    return LogMel(MELS, utterance_mean=True)


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
        """See `Features`."""
        return self._cache()(samples)
