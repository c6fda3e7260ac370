"""Frames and filters of log-mel features, in NumPy; `asr.audio.features` computes the features."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW_MS = 25  # 400 samples
HOP_MS = 10  # 160 samples
MELS = 80  # filters
FRAMES_PER_SECOND = 1000 // HOP_MS
SECONDS_PER_FRAME = HOP_MS / 1000

# Slaney's mel scale: linear up to 1 kHz (15 mels), then logarithmic, 27 steps per factor of 6.4.
_HERTZ_PER_MEL = 200 / 3
_BREAK_HERTZ = 1000.0
_BREAK_MELS = _BREAK_HERTZ / _HERTZ_PER_MEL
_LOG_STEP = math.log(6.4) / 27
_HIGHEST_FORMANT = 4800.0  # Hz; above it the warping is linear up to half the rate


def mel_filters(
    sample_rate: int, fft_size: int, mels: int, warps: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """Triangular filters on Slaney's mel scale from 0 Hz to half the rate, each of unit area.

    Equal to `librosa.filters.mel(sr=…, n_fft=…, n_mels=…, htk=False, norm="slaney")`, which
    is slow to import.

    Args:
        sample_rate: in Hz.
        fft_size: even.
        mels: number of filters.
        warps: (B,), frequency factors near 1. Scaling the frequencies of the filters
            simulates a vocal tract longer by the same factor (Jaitly and Hinton 2013, "Vocal Tract
            Length Perturbation (VTLP) improves speech recognition"). None scales nothing.

    Returns:
        (mels, fft_size // 2 + 1) float32, or with warps (B, mels, fft_size // 2 + 1).
    """
    bins = np.linspace(0, sample_rate / 2, fft_size // 2 + 1)
    filters: NDArray[np.float32] = triangles(mel_corners(sample_rate, mels, warps), bins).astype(
        np.float32
    )
    return filters


def mel_corners(
    sample_rate: int, mels: int, warps: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the corners (mels + 2,) of the filters in Hz, with warps (B,) of shape (B, mels + 2).

    Filter i rises from corner i to corner i + 1 and falls to corner i + 2; see `mel_filters`.
    """
    highest = _BREAK_MELS + math.log(sample_rate / 2 / _BREAK_HERTZ) / _LOG_STEP
    scale = np.linspace(0, highest, mels + 2)
    corners = np.where(
        scale < _BREAK_MELS,
        scale * _HERTZ_PER_MEL,
        _BREAK_HERTZ * np.exp(_LOG_STEP * (scale - _BREAK_MELS)),
    )
    return corners if warps is None else _warp(corners, warps[:, None], sample_rate / 2)


def triangles(corners: Any, bins: Any) -> Any:
    """Return filters (…, mels, bins) of unit area; arrays of NumPy or of torch alike.

    corners: (…, mels + 2), as in `mel_corners`. bins: (bins,), their frequencies in Hz.
    """
    mels = corners.shape[-1] - 2
    left, centre, right = (corners[..., at : at + mels, None] for at in range(3))
    rising = (bins - left) / (centre - left)
    falling = (right - bins) / (right - centre)
    lower = rising * (bins <= centre) + falling * (bins > centre)
    return lower.clip(0) * 2 / (right - left)


def _warp(
    hertz: NDArray[np.float64], warps: NDArray[np.float64], highest: float
) -> NDArray[np.float64]:
    """Scale frequencies below the highest formant; 0 and `highest` Hz are fixed."""
    knee = _HIGHEST_FORMANT * warps.clip(max=1)  # as warped
    slope = (highest - knee) / (highest - knee / warps)
    return np.where(hertz * warps <= knee, hertz * warps, highest - slope * (highest - hertz))
