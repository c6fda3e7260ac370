"""Augmentation of training audio: speed, volume, noise, rooms, telephone.

The caller makes all random draws. Functions take and return float32 arrays (S,) at the same rate
and do not modify their input. `asr.audio.spec_augment` changes features.
"""

import numpy as np
import soxr
from numpy.typing import NDArray

from asr.errors import UserError

TELEPHONE_RATE = 8000  # Hz
_MU = 255  # of the µ-law
_SILENCE = 1e-12  # mean power (-120 dB) below which a signal counts as silent


def speed(samples: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    """Change the speed, and the pitch with it, by resampling; a factor above 1 is faster.

    Source: Ko et al. 2015, Audio Augmentation for Speech Recognition, who use 0.9, 1.0 and 1.1.

    Args:
        samples: (S,).
        factor: 0.5 to 2.

    Returns:
        About S / factor samples.

    Raises:
        UserError: the factor is out of range.
    """
    if not 0.5 <= factor <= 2:
        raise UserError(f"speed factor {factor}: wanted 0.5 to 2, for instance 0.9 or 1.1")
    if factor == 1 or samples.size == 0:
        return samples.astype(np.float32)
    resampled: NDArray[np.float32] = soxr.resample(samples.astype(np.float32), factor, 1.0, "MQ")
    return resampled


def volume(samples: NDArray[np.float32], gain_db: float) -> NDArray[np.float32]:
    """Amplify by `gain_db` decibels (attenuate if negative), without clipping."""
    return (samples * 10 ** (gain_db / 20)).astype(np.float32)


def add_noise(
    samples: NDArray[np.float32], noise: NDArray[np.float32], snr_db: float, offset: int = 0
) -> NDArray[np.float32]:
    """Add noise at a given signal-to-noise ratio.

    The noise starts at `offset` and is repeated if necessary. Powers are means over the whole
    utterance and over the noise used. If either is silent, the ratio is undefined and no noise is
    added.

    Args:
        samples: (S,).
        noise: (any length above 0,).
        snr_db: decibels; at 0 the noise is as loud as the speech.
        offset: first sample of the noise to use; may exceed its length.

    Raises:
        UserError: the noise is empty.
    """
    if noise.size == 0:
        raise UserError("noise without samples: wanted at least one")
    start = offset % noise.size
    stretch = np.resize(np.roll(noise, -start) if start else noise, samples.size)
    speech_power, noise_power = _power(samples), _power(stretch)
    if speech_power < _SILENCE or noise_power < _SILENCE:
        return samples.astype(np.float32)
    gain = np.sqrt(speech_power / noise_power / 10 ** (snr_db / 10))
    noisy: NDArray[np.float32] = (samples + gain * stretch).astype(np.float32)
    return noisy


def reverberate(samples: NDArray[np.float32], response: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reverberate speech by a room's impulse response at the same rate.

    The direct sound (the highest peak of the response) keeps its time, so word times remain valid;
    length and energy of the utterance are kept.

    Args:
        samples: (S,).
        response: (any length above 0,).

    Raises:
        UserError: the response is silent or empty.
    """
    from scipy.signal import fftconvolve

    if response.size == 0 or not np.any(response):
        raise UserError("impulse response without a peak: wanted a recorded or simulated room")
    if samples.size == 0:
        return samples.astype(np.float32)
    direct = int(np.argmax(np.abs(response)))
    wet = fftconvolve(samples, response)[direct : direct + samples.size]
    power = _power(wet)
    gain = np.sqrt(_power(samples) / power) if power > 0 else 1.0
    distant: NDArray[np.float32] = (gain * wet).astype(np.float32)
    return distant


def telephone(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Simulate a telephone line: bandwidth `TELEPHONE_RATE` / 2, 8 bits per sample.

    Samples are compressed by the µ-law (ITU-T G.711, without the rounding of its tables); those
    above full scale are clipped.

    Args:
        samples: (S,), at `rate` Hz.
    """
    narrow = soxr.resample(samples.astype(np.float32), rate, TELEPHONE_RATE, "MQ")
    compressed = np.sign(narrow) * np.log1p(_MU * np.abs(narrow).clip(max=1)) / np.log1p(_MU)
    steps = np.round(compressed * 127) / 127
    coded = np.sign(steps) * np.expm1(np.abs(steps) * np.log1p(_MU)) / _MU
    wide = soxr.resample(coded.astype(np.float32), TELEPHONE_RATE, rate, "MQ")
    received = np.zeros(samples.size, np.float32)
    received[: len(wide)] = wide[: len(received)]  # resampling twice may lose a sample
    return received


def _power(samples: NDArray[np.float32]) -> float:
    """Return the mean square, in double precision for accuracy in long audio."""
    return float(np.mean(np.square(samples, dtype=np.float64))) if samples.size else 0.0
