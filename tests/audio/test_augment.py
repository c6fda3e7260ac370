"""Augmentation: the requested changes and no others."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio import spec_augment as masks
from asr.audio.augment import add_noise, reverberate, speed, telephone, volume
from asr.errors import UserError

RATE = 16_000


def noise(size, seed=0):
    return (0.1 * np.random.default_rng(seed).standard_normal(size)).astype("f4")


def tone(hertz, size=RATE):
    return np.sin(2 * np.pi * hertz * np.arange(size) / RATE).astype("f4")


def energy(samples):
    return float(np.square(samples, dtype="f8").sum())


def spec_augment(features, lengths, seeds, **options):
    given = {"time_masks": 2, "time_width": 40, "time_share": 0.05}
    given |= {"frequency_masks": 2, "frequency_width": 27}
    return masks.spec_augment(features, lengths, seeds, **{**given, **options})


def seeds(count, first=0):
    return range(count * first, count * (first + 1))


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1, 2.0])
def test_speed_shortens_and_raises_the_pitch(factor):
    faster = speed(tone(500), factor)
    assert faster.dtype == np.float32
    assert len(faster) == pytest.approx(RATE / factor, abs=1)
    hertz = np.argmax(np.abs(np.fft.rfft(faster))) * RATE / len(faster)
    assert hertz == pytest.approx(500 * factor, abs=2)


def test_speed_out_of_range_is_refused():
    for factor in (0.0, -1.0, 3.0, float("nan")):
        with pytest.raises(UserError, match="speed factor"):
            speed(tone(500), factor)


def test_volume_is_in_decibels_of_pressure():
    assert np.allclose(volume(noise(100), 20), 10 * noise(100))
    assert np.allclose(volume(noise(100), -6.0206), noise(100) / 2, atol=1e-6)


@given(st.floats(-10, 40), st.integers(1, 4000), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_noise_has_the_ratio_asked_for(snr_db, size, offset):
    speech = tone(300, 3000)
    added = add_noise(speech, noise(size, seed=1), snr_db, offset).astype("f8") - speech
    assert len(added) == 3000
    assert 10 * np.log10(energy(speech) / energy(added)) == pytest.approx(snr_db, abs=0.05)


def test_noise_begins_at_its_offset_and_loops():
    ramp = np.arange(1, 5, dtype="f4")
    speech = np.ones(10, "f4")
    added = add_noise(speech, ramp, 0.0, offset=6) - speech
    assert np.allclose(added / added[0], np.array([3, 4, 1, 2, 3, 4, 1, 2, 3, 4]) / 3)


def test_noise_without_a_level_changes_nothing():
    assert np.array_equal(add_noise(noise(50), np.zeros(9, "f4"), 0.0), noise(50))
    assert not add_noise(np.zeros(50, "f4"), noise(9), 0.0).any()
    with pytest.raises(UserError, match="noise"):
        add_noise(noise(50), np.zeros(0, "f4"), 0.0)


def test_a_room_that_only_delays_leaves_speech_where_it_was():
    response = np.zeros(900, "f4")
    response[400] = 0.3
    assert np.allclose(reverberate(noise(5000), response), noise(5000), atol=1e-5)


def test_a_room_keeps_length_energy_and_start():
    click = np.zeros(8000, "f4")
    click[3000] = 1.0
    response = noise(2000) * np.exp(-np.arange(2000) / 300).astype("f4")
    response[100] = 2.0
    wet = reverberate(click, response)
    assert len(wet) == 8000 and wet.dtype == np.float32
    assert energy(wet) == pytest.approx(energy(click), rel=1e-4)
    assert np.argmax(np.abs(wet)) == 3000
    assert energy(wet[3100:]) > 0.01  # reverberation after it


def test_a_room_without_a_peak_is_refused():
    for response in (np.zeros(0, "f4"), np.zeros(10, "f4")):
        with pytest.raises(UserError, match="impulse response"):
            reverberate(noise(10), response)


def test_a_telephone_keeps_low_tones_in_coarse_steps_and_drops_high_ones():
    seconds = np.arange(16_001) / 16_000
    low, high = (0.3 * np.sin(2 * np.pi * pitch * seconds).astype("f4") for pitch in (700, 5500))
    heard = telephone(low, 16_000)
    assert heard.dtype == np.float32 and len(heard) == len(low)
    error = energy(heard - low) / energy(low)
    assert 1e-5 < error < 1e-2  # 20 to 50 dB below the tone: eight bits of the µ-law
    assert energy(telephone(high, 16_000)) < 1e-3 * energy(high)
    assert not telephone(np.zeros(800, "f4"), 16_000).any()


def test_samples_given_are_never_changed():
    speech, other = noise(1000), noise(500, seed=1)
    telephone(speech, 16_000)
    volume(speech, 3), speed(speech, 1.0), add_noise(speech, other, 5.0), reverberate(speech, other)
    assert np.array_equal(speech, noise(1000)) and np.array_equal(other, noise(500, seed=1))
    assert speed(speech, 1.0) is not speech


def masked_share(features, axis):
    """Return which positions along an axis are completely masked, for each utterance."""
    return (features == 0).all(axis)


def test_masks_are_blank_stretches_of_the_widths_allowed():
    lengths = torch.tensor([600, 300, 60, 1])
    features = torch.ones(4, 600, 80)
    for seed in range(50):
        out = spec_augment(
            features, lengths, seeds(4, seed), time_share=0.1, frequency_masks=0, time_masks=1
        )
        blank = masked_share(out, 2)
        assert torch.equal(out, (~blank).unsqueeze(2).expand_as(out).float())
        for row, widest in enumerate((40, 30, 6, 0)):
            places = blank[row].nonzero().flatten()
            assert len(places) <= widest
            assert len(places) == 0 or places[-1] - places[0] + 1 == len(places)
            assert len(places) == 0 or places[-1] < lengths[row]
    bands = spec_augment(features, lengths, seeds(4), time_masks=0, frequency_masks=1)
    assert (masked_share(bands, 1).sum(1) <= 27).all()


def test_masks_reach_every_place_and_every_width():
    features, lengths = torch.ones(400, 30, 20), torch.full((400,), 30)
    out = spec_augment(
        features,
        lengths,
        seeds(400),
        time_masks=1,
        time_width=5,
        time_share=1.0,
        frequency_masks=1,
        frequency_width=5,
    )
    for axis in (1, 2):
        blank = masked_share(out, axis)
        assert set(blank.sum(1).tolist()) == set(range(6))
        assert blank.any(0).all()


def test_what_lies_beyond_an_utterance_is_not_masked_in_time():
    features, lengths = torch.ones(200, 100, 8), torch.full((200,), 10)
    out = spec_augment(features, lengths, seeds(200), time_share=1.0, frequency_masks=0)
    assert (out[:, 10:] == 1).all() and (out[:, :10] == 0).any()


def test_draws_are_those_of_the_seeds_alone():
    features, lengths = torch.randn(8, 200, 80), torch.full((8,), 200)
    kept = features.clone()
    torch.manual_seed(1)
    first = spec_augment(features, lengths, seeds(8, 5))
    torch.manual_seed(2)
    assert torch.equal(first, spec_augment(features, lengths, seeds(8, 5)))
    assert not torch.equal(first, spec_augment(features, lengths, seeds(8, 6)))
    assert torch.equal(features, kept)
    bands = masked_share(first, 1)
    assert not (bands == bands[0]).all()  # masks differ between utterances


def test_no_masks_change_nothing():
    features, lengths = torch.randn(2, 50, 80), torch.tensor([50, 0])
    out = spec_augment(features, lengths, seeds(2), time_masks=0, frequency_masks=0)
    assert torch.equal(out, features)
