"""Speech detection by energy: masks of speech, and steady noise.

Frames are those of `features.LogMel`: 25 ms long, one every 10 ms, none padded. Thresholds are
levels in dB relative to full scale, each with the data of its choice. They prefer false alarms to
misses: a missed word is lost, an undetected pause only costs time.
"""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from asr.audio.mel import HOP_MS, WINDOW_MS
from asr.audio.read import SAMPLE_RATE

_WINDOW = SAMPLE_RATE * WINDOW_MS // 1000  # 400 samples
_HOP = SAMPLE_RATE * HOP_MS // 1000  # 160 samples
_SILENCE_DB = -120.0  # the level of digital silence

# Speech is within 35 dB of the loud level of its utterance: of 5,000 read words, no word and 0.06 %
# of the frames are lost, and three quarters of the pauses are removed (25 dB: 0.5 % of the frames).
_DEPTH_DB = 35.0
# The softest of 700 recordings of eight corpora reached -38; hum and hiss of open inputs are below.
_FAINTEST_DB = -60.0
_SUSTAINED = 10  # frames that a level must last, so that clicks do not count
_MARGIN = 10  # frames kept on both sides of speech, for soft beginnings and ends

_ABOVE_BACKGROUND_DB = 6.0
_NEAR_DB = 10.0

_STRETCH = SAMPLE_RATE // 10  # samples per level when testing for steady noise; under a syllable
_LEAST_STRETCHES = 8  # a shorter sound may be a single vowel
_BANDS_HZ = (100, 500, 1000, 2000, 4000, 8000)
_AUDIBLE_DB = 40.0  # weaker bands, relative to the strongest, are ignored: codecs remove them
_STEADY_DB = 6.0

Samples = NDArray[np.float32]
Mask = NDArray[np.bool_]


def speech_mask(samples: Samples) -> Mask:
    """Return which frames contain speech, with a margin of 100 ms.

    A frame counts if its level is within 35 dB of the loudest level that lasts 100 ms. If that is
    below -60 dB (digital silence, a faint hum), no frame counts.

    Args:
        samples: (S,) at 16 kHz.

    Returns:
        (F,) bool, one for each frame of `LogMel`.
    """
    loud = _loud_frames(samples)
    if not loud.any():
        return loud
    around = sliding_window_view(np.pad(loud, _MARGIN), 2 * _MARGIN + 1)  # (F, 21)
    return np.asarray(around.any(axis=1))


def has_speech(mask: Mask) -> bool:
    """Whether a mask of `speech_mask` contains any speech."""
    return bool(mask.any())


def above_background(samples: Samples) -> Mask:
    """Return which frames are louder than the background, (F,) bool; see `speech_mask`.

    The background is the level that a tenth of the frames do not reach: `samples` need pauses. A
    frame counts if it is 6 dB above that, or within 10 dB of the loudest level that lasts 100 ms.
    """
    levels = _levels(samples)
    loud = _loud_frames(samples)
    if not loud.any():
        return loud
    background = np.percentile(levels, 10) + _ABOVE_BACKGROUND_DB
    return np.asarray(loud & (levels > min(background, levels[loud].max() - _NEAR_DB)))


def looks_like_steady_noise(samples: Samples) -> bool:
    """Whether the audio is stationary noise or hum throughout, without speech.

    In speech the level of every band varies with syllables and pauses; in stationary noise it does
    not. The level of five bands from 100 Hz to 8 kHz is measured every 100 ms; the audio is steady
    if in no band the 5th and the 95th percentile are 6 dB apart. White, pink and brown noise reach
    5 dB, one second of clean speech at least 19, speech in equally loud noise 10. Silence before
    and after is ignored.

    Args:
        samples: (S,) at 16 kHz; silence, and less than 0.8 s of sound, give False.
    """
    loud_frames = np.flatnonzero(_loud_frames(samples))
    if len(loud_frames) == 0:
        return False
    start, end = loud_frames[0] * _HOP, loud_frames[-1] * _HOP + _WINDOW
    count = (end - start) // _STRETCH
    if count < _LEAST_STRETCHES:
        return False
    stretches = samples[start : start + count * _STRETCH].reshape(count, _STRETCH)
    window = np.hanning(_STRETCH).astype(np.float32)
    power = np.square(np.abs(np.fft.rfft(stretches * window)))  # (count, bins)
    edges = [edge * _STRETCH // SAMPLE_RATE for edge in _BANDS_HZ]
    bands = np.add.reduceat(power[:, : edges[-1]], edges[:-1], axis=1)  # (count, bands)
    loudness = bands.mean(axis=0)
    audible = loudness >= loudness.max() * 10 ** (-_AUDIBLE_DB / 10)
    quiet, loud = np.percentile(bands[:, audible], (5, 95), axis=0)
    return bool((loud < quiet * 10 ** (_STEADY_DB / 10)).all())


def _levels(samples: Samples) -> NDArray[np.float64]:
    """Return the level of each frame in dB, (F,), without its mean (the offset of a recorder)."""
    step = math.gcd(_WINDOW, _HOP)  # frames overlap in blocks of 80 samples, each summed once
    blocks = samples[: len(samples) // step * step].reshape(-1, step)
    if len(blocks) < _WINDOW // step:
        return np.zeros(0)
    total = _sum_frames(blocks.sum(axis=1, dtype=np.float64), step)
    squares = _sum_frames(np.square(blocks, dtype=np.float64).sum(axis=1), step)
    variance = squares / _WINDOW - np.square(total / _WINDOW)
    return 10 * np.log10(np.maximum(variance, 10 ** (_SILENCE_DB / 10)))


def _sum_frames(blocks: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Return the sum of the blocks of each frame, (F,)."""
    return np.asarray(sliding_window_view(blocks, _WINDOW // step)[:: _HOP // step].sum(axis=1))


def _loud_frames(samples: Samples) -> Mask:
    """Return which frames have the level of speech, (F,) bool, without a margin."""
    levels = _levels(samples)
    if len(levels) == 0:
        return np.zeros(0, bool)
    width = min(_SUSTAINED, len(levels))
    loud = np.convolve(levels, np.full(width, 1 / width), "valid").max()
    return np.asarray((levels > loud - _DEPTH_DB) & (loud >= _FAINTEST_DB))
