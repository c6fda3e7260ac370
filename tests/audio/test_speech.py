"""Speech detection: masks that follow the level, cuts in pauses, noise and speech separated."""

from pathlib import Path

import numpy as np
import pytest
import torch

from asr.audio.features import LogMel
from asr.audio.read import SAMPLE_RATE, read
from asr.audio.speech import (
    above_background,
    has_speech,
    looks_like_steady_noise,
    speech_mask,
)

RECORDINGS = sorted(
    path
    for path in (Path(__file__).parents[2] / "data" / "speech").glob("*.*")
    if path.suffix in (".flac", ".opus")
)


def silence(seconds):
    return np.zeros(round(seconds * SAMPLE_RATE), "f4")


def white(seconds, level=0.05, seed=0):
    size = round(seconds * SAMPLE_RATE)
    return (level * np.random.default_rng(seed).standard_normal(size)).astype("f4")


def coloured(seconds, slope, seed=0):
    """Noise whose power falls with frequency to the power of `slope`: 1 is pink, 2 brown."""
    spectrum = np.fft.rfft(white(seconds, 1.0, seed))
    spectrum /= np.maximum(np.arange(len(spectrum)), 20 * seconds) ** (slope / 2)
    samples = np.fft.irfft(spectrum)
    return (0.05 * samples / samples.std()).astype("f4")


def hum(seconds, level=0.05, hertz=50):
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    waves = sum(np.sin(2 * np.pi * hertz * k * time) / k for k in range(1, 8))
    return (level * waves).astype("f4")


def frame(second):
    return int(second * 100)


@pytest.mark.parametrize("size", [0, 79, 399, 400, 559, 560, 16_000, 16_159])
def test_one_answer_for_each_frame_of_the_features(size):
    _, frames = LogMel()(torch.zeros(1, size), torch.tensor([size]))
    mask = speech_mask(white(2.0)[:size])
    assert mask.shape == (frames.item(),) and mask.dtype == np.bool_


@pytest.mark.parametrize("offset", [0.0, 0.2])
def test_speech_is_found_where_it_is_with_its_margin(offset):
    samples = np.concatenate([silence(1), white(0.5), silence(1)]) + white(2.5, 1e-4) + offset
    mask = speech_mask(samples.astype("f4"))
    assert mask[frame(0.95) : frame(1.55)].all()
    assert not mask[: frame(0.87)].any() and not mask[frame(1.63) :].any()


def test_soft_speech_beside_loud_is_kept_and_background_is_not():
    samples = np.concatenate([white(1), silence(1), white(1, 0.05 * 10 ** (-25 / 20)), silence(1)])
    mask = speech_mask(samples + white(4, 0.05 * 10 ** (-50 / 20)))
    assert mask[frame(2.05) : frame(2.95)].all()
    assert not mask[frame(1.2) : frame(1.8)].any()


@pytest.mark.parametrize("gain", [0.05, 1.0, 10.0])
def test_loudness_does_not_matter_above_the_floor(gain):
    samples = np.concatenate([silence(1), white(0.5), silence(1)]) + white(2.5, 1e-4)
    assert np.array_equal(speech_mask(gain * samples), speech_mask(samples))


def test_silence_faint_hum_offset_and_clicks_are_no_speech():
    click = silence(2)
    click[16_000:16_020] = 0.9
    for samples in (silence(2), hum(2, 5e-4), silence(2) + np.float32(0.3), click, silence(0)):
        assert not has_speech(speech_mask(samples))
    assert has_speech(speech_mask(white(1)))


def test_recordings_hold_speech_and_are_not_noise():
    assert RECORDINGS
    for path in RECORDINGS:
        samples = read(path).samples
        mask = speech_mask(samples)
        assert 0.5 < mask.mean() <= 1.0
        assert not looks_like_steady_noise(samples)
        noisy = samples + samples.std() * white(len(samples) / SAMPLE_RATE, 1.0)
        assert not looks_like_steady_noise(noisy)  # as loud as the speech


@pytest.mark.parametrize("seconds", [1, 5, 20])
@pytest.mark.parametrize("seed", range(3))
def test_steady_noise_is_recognised(seconds, seed):
    kinds = (white(seconds, seed=seed), coloured(seconds, 1, seed), hum(seconds, hertz=50 + seed))
    for samples in kinds:
        assert looks_like_steady_noise(samples)
        around = np.concatenate([silence(1), samples, silence(2)])
        assert looks_like_steady_noise(around)


def test_sound_that_comes_and_goes_is_not_steady():
    syllables = np.tile(np.concatenate([white(0.15), white(0.15, 0.01)]), 10)
    assert not looks_like_steady_noise(syllables)


def test_too_little_to_tell_is_not_called_noise():
    for samples in (silence(0), silence(3), white(0.5), white(3, 1e-5)):
        assert not looks_like_steady_noise(samples)


def test_speech_is_above_a_background_that_its_mask_includes():
    noise = white(3.0, 0.01)
    samples = noise.copy()
    samples[16_000:32_000] += white(1.0, 0.1)
    assert speech_mask(samples).all()  # the noise is within 35 dB of the speech
    found = above_background(samples)
    assert found[frame(1.02) : frame(1.98)].all()
    assert not found[: frame(0.97)].any() and not found[frame(2.03) :].any()
    assert not above_background(silence(2)).any()
