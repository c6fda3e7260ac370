"""Training on the frames of a frozen public encoder, and using what was trained."""

import json
from pathlib import Path

import pytest
import torch
from fake_encoder import fake_encoder
from safetensors.torch import load_file
from tones import write_tones

from asr.audio.read import read
from asr.audio.spec_augment import add_feature_noise
from asr.errors import UserError
from asr.inference.recognizer import Recognizer
from asr.models.encoders import public
from asr.training.config import load_config
from asr.training.run import run

RECIPES = Path(__file__).parents[2] / "recipes"
CONFIG = RECIPES / "plus" / "whisper-base.toml"
SMALL = [
    'data.train=[{manifest="train.jsonl"}]',
    "data.dev=dev.jsonl",
    "data.dev_ids=",
    "data.dev_most=2",
    "data.frame_cache=",
    "batches.size=12.0",
    "model.encoder.state_size=8",
    "model.decoder.state_size=8",
    "training.device=cpu",
    "training.steps=2",
    "training.validate_every=2",
    "training.log_every=1",
]


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=24)


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setattr(public, "load_public", fake_encoder)


def test_the_recipe_trains_and_its_model_transcribes(tones, tmp_path):
    cache = tmp_path / "frames"
    model = run(CONFIG, tmp_path / "run", tones, [*SMALL, f"data.frame_cache={cache}"])
    frames = set(cache.rglob("*.npy"))
    assert len(frames) >= 24
    run(CONFIG, tmp_path / "again", tones, [*SMALL, f"data.frame_cache={cache}", "seed=2"])
    assert set(cache.rglob("*.npy")) == frames  # the audio is unchanged, in every epoch and run

    state = load_file(model / "model.safetensors")
    assert state["normalizer.mean"].shape == (512,)
    assert not any(name.startswith("features") for name in state)
    card = (model / "README.md").read_text()
    assert "whisper-base (MIT)" in card and "680,000 h" in card

    recognizer = Recognizer.load(model)
    sources = [read(path) for path in sorted((tones / "dev").glob("*.flac"))[:3]]
    together = recognizer.transcribe(sources)
    for source, found in zip(sources, together, strict=True):
        alone = recognizer.transcribe(source)
        assert alone.text == found.text
        assert [word.start for word in alone.words] == pytest.approx(
            [word.start for word in found.words]
        )
    aligned = recognizer.align(sources[0], "abc")
    assert aligned.weights.shape[0] == 3
    assert aligned.seconds_per_annotation == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.features.mels=40", "features.* is not read"),
        ("model.encoder.channels=8", r"model.encoder.channels = 8 is not read with kind = .frozen"),
        ("augment.tract_lengths=[0.9, 1.1]", "augment.tract_lengths is not read with a frozen"),
        ("model.encoder.public=whisper-huge", "is not one of: moonshine-tiny"),
    ],
)
def test_settings_of_the_other_kind_are_refused(tones, tmp_path, override, message):
    with pytest.raises(UserError, match=message) as caught:
        run(CONFIG, tmp_path / "run", tones, [*SMALL, override])
    assert "\n" not in str(caught.value)


def test_settings_of_a_frozen_encoder_are_not_read_by_convolutions():
    recipe = RECIPES / "tones" / "tones.toml"
    with pytest.raises(UserError, match=r"data.frame_cache = .x. is not read without a frozen"):
        load_config(recipe, ["data.frame_cache=x"])
    with pytest.raises(UserError, match=r"model.encoder.public = .* is not read"):
        load_config(recipe, ["model.encoder.public=whisper-tiny.en"])


def test_feature_noise_has_its_deviation_and_stays_within_the_utterance():
    features = torch.zeros(2, 400, 50)
    lengths = torch.tensor([400, 100])
    noisy = add_feature_noise(features, lengths, (1, 2), 0.3)
    assert float(noisy[0].std()) == pytest.approx(0.3, rel=0.03)
    assert float(noisy[1, :100].std()) == pytest.approx(0.3, rel=0.05)
    assert not noisy[1, 100:].any() and not features.any()
    again = add_feature_noise(features, lengths, (1, 2), 0.3)
    assert torch.equal(noisy, again)


def test_feature_noise_reaches_training(tones, tmp_path):
    def first_loss(*options):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        run(CONFIG, folder, tones, [*SMALL, *options])
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        return next(line["loss"] for line in lines if line["kind"] == "train")

    quiet = "augment.feature_noise=0.0"
    assert first_loss(quiet) == first_loss(quiet)
    assert first_loss(quiet) != first_loss("augment.feature_noise=0.5")
