"""Configs: unknown keys are refused, overrides work, and all configs of recipes build a model."""

from pathlib import Path

import pytest

from asr.errors import UserError
from asr.models.language import build_language_model
from asr.models.speech import build_speech_model
from asr.models.translation import build_translation_model
from asr.training.config import LanguageConfig, SpeechConfig, load_config

RECIPES = Path(__file__).parents[2] / "recipes"
# That of "written" is for its own script.
CONFIGS = sorted(set(RECIPES.glob("*/*.toml")) - set(RECIPES.glob("written/*.toml")))
SMALL = 'data = { train = [{manifest = "a.jsonl"}], dev = "b.jsonl" }\n'


def write(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_shipped_config_loads_and_builds(path):
    config = load_config(path)
    if isinstance(config, SpeechConfig):
        model = build_speech_model(config.model, 31)
        if config.data.dev_ids:
            assert (path.parent / config.data.dev_ids).is_file()
    elif isinstance(config, LanguageConfig):
        model = build_language_model(config.model, 9000)
    else:
        model = build_translation_model(config.model, 50, 50)
    assert sum(each.numel() for each in model.parameters()) > 10_000


def test_there_are_configs():
    assert len(CONFIGS) >= 5


def test_defaults_and_overrides(tmp_path):
    path = write(tmp_path, SMALL)
    config = load_config(
        path, ["training.steps=7", "model.encoder.dropout=0", "training.precision=fp32"]
    )
    assert isinstance(config, SpeechConfig)
    assert config.training.steps == 7
    assert config.model.encoder.dropout == 0.0
    assert config.training.precision == "fp32"
    assert config.data.train[0].times == 1.0


WITHOUT_NOISE = ["data.noise=", "augment.noise_share=0.0"]
NOISY = """
[data]
train = [{manifest = "train.jsonl"}]
dev = "dev.jsonl"
noise = "noise.jsonl"
noise_times = 0.5
[model.attention]
kind = "additive"
location_features = 8
[augment]
noise_share = 0.2
noise_snr_db = [10.0, 20.0]
[loss]
ctc = 0.5
[teacher]
model = "english-plus"
share = 0.8
"""


@pytest.mark.parametrize(
    ("overrides", "section", "dropped", "default"),
    [
        (WITHOUT_NOISE, "data", "noise_times", 1.0),
        (["augment.noise_share=0.0"], "augment", "noise_snr_db", (5.0, 25.0)),
        (["teacher.model="], "teacher", "share", 0.7),
    ],
)
def test_keys_that_an_override_makes_meaningless_are_dropped(
    tmp_path, overrides, section, dropped, default
):
    path = write(tmp_path, NOISY)
    assert getattr(getattr(load_config(path), section), dropped) != default
    assert getattr(getattr(load_config(path, overrides), section), dropped) == default


def test_keys_that_an_override_sets_are_not_dropped(tmp_path):
    path = write(tmp_path, NOISY)
    with pytest.raises(UserError, match=r"noise_times = 2\.0 is not read"):
        load_config(path, [*WITHOUT_NOISE, "data.noise_times=2.0"])


def test_keys_that_the_file_itself_makes_meaningless_are_refused(tmp_path):
    text = NOISY.replace('noise = "noise.jsonl"\n', "").replace("noise_share = 0.2", "")
    with pytest.raises(UserError, match=r"noise_times = 0\.5 is not read"):
        load_config(write(tmp_path, text), ["seed=1"])


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (SMALL + "[training]\nstep = 3\n", [], "did you mean steps"),
        (SMALL + "[modle]\n", [], "did you mean model"),
        (SMALL, ["training.steps"], "key=value"),
        (SMALL, ["training.steps=many"], "training.steps must be a whole number"),
        (SMALL, ["training.steps=1.5"], "training.steps must be a whole number"),
        (SMALL, ["training.precision=float16"], "'float16' is not one of: auto, bf16, fp32"),
        (SMALL, ["loss.consistency=1.0"], "loss.consistency is for translation"),
        (SMALL, ["seed.x=1"], "seed must be a whole number"),
        (SMALL + "seed = 1\n", ["seed.x=1"], "not a table"),
        ("task = 'cooking'\n", [], "speech, translation"),
        ("seed = 1\n", [], "data"),
        ("seed = = 1\n", [], "not a TOML file"),
        (SMALL + "[model]\nencoder = 3\n", [], "must be a table"),
        (SMALL, ["model.encoder.layers=1", "model.encoder.layers_before_reduction=2"], "=1, got 2"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, overrides, message):
    with pytest.raises(UserError, match=message) as caught:
        load_config(write(tmp_path, text), overrides)
    assert "\n" not in str(caught.value)


def test_missing_config_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("overrides", [[], ["seed=3"]], ids=["file", "with --set"])
def test_an_unknown_attention_in_the_file_is_one_line(tmp_path, overrides):
    config = tmp_path / "config.toml"
    tones = (RECIPES / "tones" / "tones.toml").read_text()
    config.write_text(tones.replace("[model.attention]", '[model.attention]\nkind = "x"'))
    with pytest.raises(UserError, match="attention kind 'x' is not one of: additive"):
        load_config(config, overrides)


@pytest.mark.parametrize("factor", [0.4, 3.0])
def test_speeds_that_augmentation_refuses_are_refused_before(factor):
    config = Path(__file__).parents[2] / "recipes" / "tones" / "tones.toml"
    with pytest.raises(UserError, match=r"speeds.*0\.5.*2"):
        load_config(config, [f"augment.speeds=[1.0, {factor}]"])
