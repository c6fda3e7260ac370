"""Features: equal to librosa's, equal in a batch and alone, and correctly normalised."""

import numpy as np
import pytest
import torch

from asr.audio.features import LogMel, Normalizer
from asr.audio.mel import FRAMES_PER_SECOND, MELS, mel_filters

librosa_filters = pytest.importorskip("librosa.filters")
librosa_feature = pytest.importorskip("librosa.feature")


def noise(*shape, seed=0):
    return 0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def batch(*lengths):
    """Return utterances of random samples, padded with a value that would change any result."""
    samples = torch.full((len(lengths), max(lengths)), torch.nan)
    for row, length in enumerate(lengths):
        samples[row, :length] = noise(length, seed=row)
    return samples, torch.tensor(lengths)


@pytest.mark.parametrize(("rate", "size", "mels"), [(16_000, 512, 80), (8000, 256, 40)])
def test_filters_are_those_of_librosa(rate, size, mels):
    expected = librosa_filters.mel(sr=rate, n_fft=size, n_mels=mels, htk=False, norm="slaney")
    assert np.allclose(mel_filters(rate, size, mels), expected, atol=1e-7)


@pytest.mark.parametrize("warp", [0.8, 0.95, 1.0, 1.2])
def test_warped_filters_hear_a_tone_of_so_many_times_the_frequency(warp):
    features = LogMel()
    seconds = torch.arange(8000) / 16_000
    tones = torch.stack([torch.sin(2 * torch.pi * hertz * seconds) for hertz in (1000, 3000)])
    high = torch.stack([torch.sin(2 * torch.pi * hertz * warp * seconds) for hertz in (1000, 3000)])
    lengths = torch.tensor([8000, 8000])
    plain, _ = features(tones, lengths)
    heard, _ = features(high, lengths, torch.tensor([warp, warp]))
    assert torch.equal(heard.mean(1).argmax(1), plain.mean(1).argmax(1))
    if warp == 1:
        assert torch.equal(heard, plain)
    else:
        assert not torch.equal(
            heard.mean(1).argmax(1), features(high, lengths)[0].mean(1).argmax(1)
        )


def warped(hertz, warp):
    """Equation of Jaitly and Hinton 2013, for 16 kHz."""
    knee = 4800 * min(warp, 1) / warp
    if hertz <= knee:
        return hertz * warp
    return 8000 - (8000 - 4800 * min(warp, 1)) / (8000 - knee) * (8000 - hertz)


def test_warped_filters_are_triangles_between_warped_frequencies():
    warps = [0.8, 1.0, 1.25]
    straight = librosa_filters.mel_frequencies(82, fmin=0, fmax=8000, htk=False)
    bins = np.linspace(0, 8000, 257)
    filters = mel_filters(16_000, 512, 80, np.array(warps))
    assert filters.shape == (3, 80, 257)
    for warp, found in zip(warps, filters, strict=True):
        corners = [warped(hertz, warp) for hertz in straight]
        for at, row in enumerate(found):
            left, _, right = three = corners[at : at + 3]
            expected = np.interp(bins, three, [0, 1, 0]) * 2 / (right - left)
            assert row == pytest.approx(expected, abs=1e-6)


def test_each_utterance_has_its_own_warped_filters():
    samples, warps = noise(16_000).expand(2, -1), torch.tensor([0.9, 1.15])
    found, _ = LogMel()(samples, torch.tensor([16_000, 16_000]), warps)
    model = LogMel()
    for row, warp in enumerate(warps.double().numpy()):
        model.filters = torch.from_numpy(mel_filters(16_000, 512, MELS, np.array([warp]))[0])
        wanted, _ = model(samples[:1], torch.tensor([16_000]))
        assert torch.allclose(found[row], wanted[0], atol=1e-4)


def test_log_mel_is_that_of_librosa():
    samples = noise(16_000)
    features, lengths = LogMel()(samples[None], torch.tensor([16_000]))
    # librosa centres the window of 400 in the 512 of its FFT, so it begins 56 samples later.
    power = librosa_feature.melspectrogram(
        y=np.pad(samples.numpy(), 56),
        sr=16_000,
        n_fft=512,
        win_length=400,
        hop_length=160,
        center=False,
        n_mels=80,
    )
    assert power.shape[1] == lengths[0] == 98
    assert np.allclose(features[0].numpy(), np.log(power.T), atol=1e-4)


@pytest.mark.parametrize(
    ("samples", "frames"), [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2), (16_000, 98)]
)
def test_only_whole_windows_are_frames(samples, frames):
    features, lengths = LogMel()(torch.zeros(1, samples), torch.tensor([samples]))
    assert features.shape == (1, frames, MELS) and lengths.tolist() == [frames]


def test_frames_come_a_hundred_a_second():
    _, lengths = LogMel()(torch.zeros(1, 160_000), torch.tensor([160_000]))
    assert lengths.item() == pytest.approx(10 * FRAMES_PER_SECOND, abs=3)


def test_an_utterance_in_a_batch_is_as_alone_also_when_warped():
    samples, lengths = batch(4000, 1603)
    warps = torch.tensor([0.9, 1.1])
    together, frames = LogMel()(samples, lengths, warps)
    for row, length in enumerate(lengths.tolist()):
        alone, _ = LogMel()(
            samples[row : row + 1, :length], lengths[row : row + 1], warps[row, None]
        )
        assert torch.equal(together[row, : frames[row]], alone[0])


def test_an_utterance_in_a_batch_is_as_alone():
    log_mel, normalizer = LogMel(), Normalizer()
    normalizer.mean.fill_(-1.0)
    normalizer.std.fill_(2.0)
    samples, lengths = batch(8000, 300, 15_999, 400)
    features, frame_lengths = log_mel(samples, lengths)
    normalised = normalizer(features, frame_lengths)
    assert normalised.isfinite().all()
    for row, length in enumerate(lengths.tolist()):
        alone, count = log_mel(samples[row : row + 1, :length], lengths[row : row + 1])
        assert count == frame_lengths[row]
        assert torch.allclose(features[row, :count], alone[0], atol=1e-5)
        assert torch.allclose(normalised[row, :count], normalizer(alone, count)[0], atol=1e-5)
        assert not features[row, count:].any() and not normalised[row, count:].any()


def test_a_tone_is_loudest_in_its_own_filter():
    filters = mel_filters(16_000, 512, MELS)
    for hertz in (200, 1000, 3000, 7000):
        samples = torch.sin(2 * torch.pi * hertz * torch.arange(16_000) / 16_000)
        features, _ = LogMel()(samples[None], torch.tensor([16_000]))
        nearest = filters[:, round(hertz / 16_000 * 512)].argmax()
        assert abs(features[0, 50].argmax() - nearest) <= 1


def test_ten_times_the_pressure_is_a_hundred_times_the_power():
    samples, lengths = noise(1, 16_000), torch.tensor([16_000])
    soft, loud = LogMel()(samples, lengths)[0], LogMel()(10 * samples, lengths)[0]
    assert torch.allclose(loud - soft, torch.tensor(100.0).log().expand_as(soft), atol=1e-3)


def test_digital_silence_is_the_floor():
    features, _ = LogMel(floor=1e-8)(torch.zeros(1, 800), torch.tensor([800]))
    assert torch.allclose(features, torch.tensor(1e-8).log())


def test_autocast_does_not_coarsen_the_features():
    samples, lengths = noise(2, 8000), torch.tensor([8000, 8000])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features, _ = LogMel()(samples, lengths)
    assert torch.equal(features, LogMel()(samples, lengths)[0])


def test_gradients_reach_the_samples():
    samples = noise(1, 4000).requires_grad_()
    LogMel()(samples, torch.tensor([4000]))[0].sum().backward()
    assert samples.grad is not None and samples.grad.isfinite().all() and samples.grad.any()


@pytest.mark.parametrize("per_utterance_mean", [True, False])
def test_what_was_fitted_to_comes_out_centred_and_scaled(per_utterance_mean):
    features = 3 * noise(4, 50, MELS) - 7 + torch.arange(4.0).reshape(4, 1, 1)
    lengths = torch.tensor([50, 20, 35, 0])
    features[1, 20:] = torch.nan
    normalizer = Normalizer.fit([(features, lengths)], MELS, per_utterance_mean)
    out = normalizer(features, lengths)
    frames = torch.cat([out[row, :count] for row, count in enumerate(lengths)])
    assert torch.allclose(frames.mean(0), torch.zeros(MELS), atol=1e-4)
    assert torch.allclose(frames.std(0, correction=0), torch.ones(MELS), atol=1e-4)


def test_the_fit_does_not_depend_on_how_utterances_are_batched():
    features, lengths = noise(3, 40, MELS) + 5, torch.tensor([40, 10, 25])
    together = Normalizer.fit([(features, lengths)])
    one_by_one = Normalizer.fit(
        (features[row : row + 1, :count], lengths[row : row + 1])
        for row, count in enumerate(lengths.tolist())
    )
    assert torch.allclose(together.mean, one_by_one.mean, atol=1e-6)
    assert torch.allclose(together.std, one_by_one.std, atol=1e-6)


def test_loudness_is_removed_only_with_the_utterances_own_mean():
    features, lengths = noise(1, 30, MELS), torch.tensor([30])
    for own_mean in (True, False):
        normalizer = Normalizer(per_utterance_mean=own_mean)
        same = torch.allclose(
            normalizer(features, lengths), normalizer(features + 4.6, lengths), atol=1e-5
        )
        assert same == own_mean


def test_a_filter_that_never_varies_stays_finite():
    features, lengths = torch.full((1, 20, MELS), -23.0), torch.tensor([20])
    out = Normalizer.fit([(features, lengths)])(features, lengths)
    assert out.isfinite().all() and out.abs().max() < 1


def test_fitting_to_nothing_is_refused():
    with pytest.raises(ValueError, match="no frames"):
        Normalizer.fit([(torch.zeros(2, 0, MELS), torch.tensor([0, 0]))])


def test_normalisation_travels_with_the_weights_and_filters_do_not():
    assert set(Normalizer().state_dict()) == {"mean", "std"}
    assert not LogMel().state_dict()
