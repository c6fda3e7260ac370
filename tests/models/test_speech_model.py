"""The speech model: one way from samples to annotations, for log-mel features and frozen frames."""

import pytest
import torch
from fake_encoder import fake_encoder

from asr.attention.masks import Window
from asr.errors import UserError
from asr.models.encoders import frozen, public
from asr.models.encoders.public import PublicEncoder, frame_cache, frame_count
from asr.models.settings import (
    AcousticSettings,
    CTCSettings,
    DecoderSettings,
    SpeechAttentionSettings,
    SpeechSettings,
)
from asr.models.speech import SpeechModel, Waveforms, build_speech_model

LENGTHS = [16_000, 9_001, 700]


def build(kind="convolutional", ctc=2, **attention) -> SpeechModel:
    torch.manual_seed(0)
    sizes = {} if kind == "frozen" else {"channels": 3}
    settings = SpeechSettings(
        encoder=AcousticSettings(kind=kind, state_size=6, layers=2, dropout=0.0, **sizes),
        attention=SpeechAttentionSettings(size=4, **attention),
        decoder=DecoderSettings(embedding_size=4, state_size=6, readout_size=4, dropout=0.0),
        ctc=CTCSettings(subframes=ctc),
    )
    return build_speech_model(settings, 9).eval()


@pytest.fixture(params=["convolutional", "frozen"])
def kind(request, monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)
    return request.param


def waveforms(lengths=LENGTHS) -> Waveforms:
    random = torch.Generator().manual_seed(1)
    samples = torch.zeros(len(lengths), max(lengths))
    for row, length in zip(samples, lengths, strict=True):
        row[:length] = 0.1 * torch.randn(length, generator=random)
    frames = 1 + (torch.tensor(lengths) - 400) // 160
    speech = torch.arange(int(frames.max())) < frames[:, None]
    speech[0, :40] = False
    return Waveforms(samples, torch.tensor(lengths), speech)


@pytest.mark.parametrize("silence_mask", [False, True])
def test_an_utterance_alone_has_the_result_that_it_has_in_a_batch(kind, silence_mask):
    model = build(kind, silence_mask=silence_mask)
    batch = waveforms()
    together = model.encode(batch)
    for row, length in enumerate(LENGTHS):
        part = Waveforms(batch.samples[row : row + 1, :length], batch.lengths[row : row + 1])
        frames = 1 + (length - 400) // 160
        alone = model.encode(part._replace(speech=batch.speech[row : row + 1, :frames]))
        count = int(alone.lengths[0])
        assert count == together.lengths[row] > 0
        assert torch.equal(together.memory.mask[row, :count], alone.memory.mask[0])
        torch.testing.assert_close(together.memory.values[row, :count], alone.memory.values[0])
        ctc = int(alone.ctc_lengths[0])
        assert ctc == together.ctc_lengths[row] == 2 * count
        torch.testing.assert_close(
            together.ctc_log_probs[row, :ctc], alone.ctc_log_probs[0, :ctc], atol=1e-5, rtol=1e-4
        )


def test_the_silence_mask_forbids_silence_and_only_silence(kind):
    batch, plain = waveforms(), build(kind).encode(waveforms())
    model = build(kind, silence_mask=True)
    masked = model.encode(batch)
    silent = 40 // model.frames_per_annotation  # whole annotations
    assert not masked.memory.mask[0, :silent].any()
    assert masked.memory.mask[0, silent + 1 : masked.lengths[0] - 1].all()
    assert torch.equal(masked.lengths, plain.lengths)  # of the audio, not of what is allowed
    assert torch.equal(masked.ctc_log_probs, plain.ctc_log_probs)
    with pytest.raises(ValueError, match="needs waveforms with `speech`"):
        model.encode(batch._replace(speech=None))


def test_normalisation_is_part_of_the_model(kind):
    model = build(kind)
    assert {"normalizer.mean", "normalizer.std"} <= model.state_dict().keys()
    assert not any(name.startswith("features.") for name in model.state_dict())
    before = model.encode(waveforms())
    model.normalizer.mean += 1.0
    after = model.encode(waveforms())
    inside = torch.arange(before.features.size(1)) < before.frames[:, None]
    torch.testing.assert_close(after.features[inside], before.features[inside] - 1.0)
    assert not after.features[~inside].any()
    assert not torch.equal(after.memory.values, before.memory.values)


def test_a_change_of_the_features_reaches_the_encoder_but_not_the_result(kind):
    model = build(kind)
    plain = model.encode(waveforms())
    changed = model.encode(waveforms(), lambda features, frames: 0 * features)
    assert torch.equal(changed.features, plain.features)
    assert not torch.equal(changed.memory.values, plain.memory.values)


def test_a_model_without_ctc_has_no_ctc_frames():
    encoded = build(ctc=0).encode(waveforms())
    assert encoded.ctc_log_probs is None
    assert not encoded.ctc_lengths.any()


def test_a_windowed_model_shares_its_parameters():
    model = build(silence_mask=True)
    windowed = model.windowed(Window(back=2, ahead=3))
    assert model.decoder.attention.window is None
    assert windowed.decoder.attention.window is not None
    assert windowed.silence_mask and not windowed.training
    pairs = zip(model.parameters(), windowed.parameters(), strict=True)
    assert all(one is other for one, other in pairs)


# --- frozen ----------------------------------------------------------------------------------


def test_frames_of_a_frozen_encoder_are_those_of_the_encoder(monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)
    features = frozen.FrozenFeatures("whisper-base")
    batch = waveforms()
    found, frames = features(batch.samples, batch.lengths)
    assert frames.tolist() == [frame_count(length) for length in LENGTHS]
    assert found.shape == (3, max(frames), 512)
    wanted = frame_cache(None, fake_encoder("whisper-base"))(batch.samples[1, :9001].numpy())
    assert torch.equal(found[1, : frames[1]], torch.from_numpy(wanted))
    assert not found[1, frames[1] :].any()
    with pytest.raises(ValueError, match="no vocal tract factors"):
        features(batch.samples, batch.lengths, torch.ones(3))


def test_frames_are_cached_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(public, "load_public", fake_encoder)
    features = frozen.FrozenFeatures("whisper-base")
    features.load(tmp_path)
    batch = waveforms()
    first, _ = features(batch.samples, batch.lengths)
    assert len(list(tmp_path.rglob("*.npy"))) == 3

    def fail(name):
        encoder = fake_encoder(name)
        return PublicEncoder(name, encoder.size, "digest", lambda samples: 1 / 0)

    monkeypatch.setattr(public, "load_public", fail)
    again = frozen.FrozenFeatures("whisper-base")
    again.load(tmp_path)
    assert torch.equal(again(batch.samples, batch.lengths)[0], first)


def test_an_unknown_encoder_is_refused():
    with pytest.raises(
        UserError, match=r"'whisper-huge' is not one of: moonshine-tiny, whisper-base"
    ):
        frozen.FrozenFeatures("whisper-huge")


def test_annotations_stand_for_seconds(kind):
    model = build(kind)
    assert model.seconds_per_annotation == pytest.approx(0.08)
    assert model.frames_per_annotation == 8
