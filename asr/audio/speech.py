"""Speech detection by energy: masks of speech, segments of long audio, and steady noise.

Frames are those of `features.LogMel`: 25 ms long, one every 10 ms, none padded. Thresholds are
levels in dB relative to full scale, each with the data of its choice. They prefer false alarms to
misses: a missed word is lost, an undetected pause only costs time.
"""

import math
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from asr.audio.mel import HOP_MS, WINDOW_MS
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError

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

_SHORTEST = 1.0  # s; smallest limit of a segment
_PAUSE = 30  # frames over which the level at a cut is averaged

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


def segments(samples: Samples, longest: float = 20.0) -> list[tuple[float, float]]:
    """Cut long audio into segments at its quietest places.

    Each cut is at the lowest mean level over 300 ms in the second half of the longest possible
    segment; near the end, anywhere that leaves one last segment. Time and memory are linear.

    Args:
        samples: (S,) at 16 kHz.
        longest: seconds, at least 1.

    Returns:
        (start, end) in seconds, in order, contiguous from 0 to the end, none longer than `longest`;
        empty if there are no samples.

    Raises:
        UserError: `longest` is below a second or not a number.
    """
    if not longest >= _SHORTEST:
        raise UserError(f"segments of at most {longest} s: wanted {_SHORTEST:g} s or more")
    size = len(samples)
    if size <= longest * SAMPLE_RATE:
        return [(0.0, size / SAMPLE_RATE)] if size else []
    limit = int(longest * SAMPLE_RATE)
    pauses = np.convolve(_levels(samples), np.full(_PAUSE, 1 / _PAUSE), "same")
    cuts = [0]
    while (rest := size - cuts[-1]) > limit:
        # No segment is shorter than a quarter of the limit: words need context.
        earliest = max(min(rest - limit, limit // 2), limit // 4)
        latest = min(limit, rest - limit // 4)
        cuts.append(_quietest(pauses, cuts[-1] + earliest, cuts[-1] + latest))
    cuts.append(size)
    return [(start / SAMPLE_RATE, end / SAMPLE_RATE) for start, end in pairwise(cuts)]


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


def _quietest(pauses: NDArray[np.float64], earliest: int, latest: int) -> int:
    """Return the middle of the frame with the lowest level around it, between two samples."""
    first = -(-(earliest - _WINDOW // 2) // _HOP)
    last = (latest - _WINDOW // 2) // _HOP
    frame = first + int(np.argmin(pauses[first : last + 1]))
    return frame * _HOP + _WINDOW // 2
