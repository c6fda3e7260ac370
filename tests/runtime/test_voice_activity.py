"""The voice activity model: NumPy equals torch, and long recordings are cut where it says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_model import write_tiny_model

from asr.errors import UserError
from asr.inference.cutting import detector, symbol_detector
from asr.inference.loaded import LoadedModel
from asr.inference.recognizer import Recognizer
from asr.model_folder import VOICE_ACTIVITY
from asr.models.folder import copy_folder
from asr.models.voice_activity import VoiceActivityModel, near_symbols
from asr.runtime.voice_activity import FEATURES, FRAME, REACH, VoiceActivity, frame_features

RATE = 16_000


def sound(seconds, seed=0):
    """Noise whose level changes, so that it is not steady."""
    noise = np.random.default_rng(seed).standard_normal(round(RATE * seconds))
    return (0.3 * noise * np.sin(np.arange(len(noise)) / 900)).astype(np.float32)


def write(folder, features=FEATURES, bias=None):
    """Write a model with random weights, or one that always has the logit `bias`."""
    state = VoiceActivityModel(features).state_dict()
    if bias is not None:
        state["output.weight"].zero_()
        state["output.bias"].fill_(bias)
    save_file({name: value.half() for name, value in state.items()}, folder / VOICE_ACTIVITY)


@pytest.mark.parametrize("samples", [1, 399, 640, 641, 5 * RATE + 399])
def test_logits_are_those_of_the_trained_network(tmp_path, samples):
    torch.manual_seed(1)
    model = VoiceActivityModel(FEATURES).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    save_file(model.state_dict(), tmp_path / VOICE_ACTIVITY)
    given = sound(6.0)[:samples]
    found = VoiceActivity.load(tmp_path / VOICE_ACTIVITY).logits(given)
    assert found.shape == (-(-samples // FRAME),)
    with torch.no_grad():
        wanted = model(torch.from_numpy(frame_features(given))[None])[0]
    assert np.allclose(found, wanted.numpy(), atol=1e-4)


def test_a_frame_holds_its_own_40_ms():
    features = frame_features(np.concatenate([sound(2.0), 0.01 * sound(2.0)]))
    loudness = features.mean(1)
    assert features.shape == (100, FEATURES)
    assert loudness[:49].min() > 0 > loudness[51:].max()


def test_what_it_is_taught_and_what_it_marks_are_inverse(monkeypatch):
    symbols = torch.zeros(1, 60, dtype=torch.bool)
    symbols[0, [3, 20, 24, 40]] = True
    near = near_symbols(symbols, REACH)
    assert near.sum() == 5 + 9 + 5
    logits = np.where(near[0].numpy(), 1.0, -1.0)
    monkeypatch.setattr(VoiceActivity, "logits", lambda self, samples: logits)
    marked = VoiceActivity(None, (), None)(np.zeros(60 * FRAME, np.float32))
    assert np.flatnonzero(marked).tolist() == [3, *range(20, 25), 40]  # close ones are joined


def test_a_recording_is_cut_where_it_finds_no_speech(tmp_path, monkeypatch):
    folder = write_tiny_model(tmp_path)
    write(folder, bias=1.0)
    loaded = LoadedModel.load(folder)
    quiet = np.zeros(33 * RATE, bool)
    quiet[12 * RATE : 15 * RATE] = True
    samples = np.where(quiet, 0.01, 1.0).astype(np.float32) * sound(33.0)

    def speech(self, given):
        frames = np.abs(np.pad(given, (0, -len(given) % FRAME))).reshape(-1, FRAME)
        return np.where(frames.max(1) > 0.05, 9.0, -9.0)

    monkeypatch.setattr(VoiceActivity, "logits", speech)
    encoded = []
    encode = type(loaded.engine).encode
    monkeypatch.setattr(
        type(loaded.engine), "encode", lambda *given: encoded.append(1) or encode(*given)
    )
    found = list(Recognizer(loaded, loaded.decoding).pieces(samples, rate=RATE))
    assert not encoded  # the recogniser itself is not asked
    assert found[0].duration == pytest.approx(12.12, abs=0.05)  # 0.2 s kept, less two frames
    assert found[1].is_silent and found[1].duration == pytest.approx(2.76, abs=0.05)
    symbol_detector(loaded)(samples[: 5 * RATE])
    assert encoded
    assert len(detector(replace(loaded, voice_activity=None))(samples[: 5 * RATE])) == 125
    assert len(encoded) == 2


def test_steady_noise_is_no_speech_whatever_it_says(tmp_path):
    folder = write_tiny_model(tmp_path)
    write(folder, bias=9.0)
    detect = detector(LoadedModel.load(folder))
    assert detect(sound(3.0)).all()
    assert not detect(0.1 * np.random.default_rng(0).standard_normal(3 * RATE).astype("f")).any()


def test_a_model_folder_may_hold_one_or_name_that_of_the_package(tmp_path):
    folder = write_tiny_model(tmp_path / "tiny")
    assert LoadedModel.load(folder).voice_activity is None
    copy_folder(folder, tmp_path / "copy", 16, voice_activity="english")
    assert LoadedModel.load(tmp_path / "copy").voice_activity is not None
    write(folder)
    copy_folder(folder, tmp_path / "companion", 16)
    assert LoadedModel.load(tmp_path / "companion").voice_activity is not None
    copy_folder(folder, tmp_path / "none", 16, voice_activity="written")
    with pytest.raises(UserError, match="names a voice activity model that is missing"):
        LoadedModel.load(tmp_path / "none")


def test_a_file_of_another_form_is_one_line(tmp_path):
    folder = write_tiny_model(tmp_path)
    write(folder, FEATURES + 2)
    with pytest.raises(UserError, match=f"{VOICE_ACTIVITY}: the sizes do not fit 80 filters"):
        LoadedModel.load(folder)
    save_file({"sound.weight": torch.zeros(4, 9)}, folder / VOICE_ACTIVITY)
    with pytest.raises(UserError, match=f"{VOICE_ACTIVITY}: not the weights of a voice activity"):
        LoadedModel.load(folder)
    (folder / VOICE_ACTIVITY).write_bytes(b"nothing")
    with pytest.raises(UserError, match="damaged"):
        LoadedModel.load(folder)


def test_the_package_has_one_that_tells_speech_from_noise():
    loaded = Recognizer.load("english").loaded
    assert loaded.voice_activity is not None
    assert Recognizer.load("english-plus").loaded.voice_activity is not None
    from asr.audio.read import read

    speech = read("data/speech/5683-32866-0027.flac").samples
    assert loaded.voice_activity(speech).mean() > 0.5
    pause = np.concatenate([speech, 1e-3 * sound(6.0), speech])
    found = loaded.voice_activity(pause)
    inside = slice(len(speech) // FRAME + 10, (len(speech) + 6 * RATE) // FRAME - 10)
    assert not found[inside].any()
