"""english-plus and english-plus-small, the packaged models on frozen public encoders."""

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_encoder import fake_encoder

import asr
from asr.corpora import read_manifest
from asr.errors import UserError
from asr.inference.recognizer import SHIPPED, Recognizer
from asr.model_folder import LANGUAGE_MODEL, PRETRAINED
from asr.models.encoders import public
from asr.models.encoders.public_weights import ENCODERS
from asr.scoring.words import ErrorCounts, count_characters

SPEECH = Path(__file__).parents[1] / "data" / "speech"
MOST_BYTES = 15_000_000
HIGHEST_CER = 0.05


class Shipped(NamedTuple):
    """A model. encoder: its name on the card. hours: its training. engine: a module it needs."""

    name: str
    encoder: str
    hours: str
    engine: str
    public: str


MODELS = [
    Shipped("english-plus", "Whisper base", "680,000", "ctranslate2", "whisper-base"),
    Shipped("english-plus-small", "Moonshine tiny", "200,000", "onnxruntime", "moonshine-tiny"),
]


@pytest.fixture(params=MODELS, ids=[each.name for each in MODELS])
def shipped(request: pytest.FixtureRequest) -> Shipped:
    model: Shipped = request.param
    return model


def test_the_folder_is_small_and_its_card_names_the_encoder(shipped: Shipped) -> None:
    folder = PRETRAINED / shipped.name
    assert (folder / "model.safetensors").stat().st_size <= MOST_BYTES
    encoder = json.loads((folder / "config.json").read_text())["model"]["encoder"]
    assert (encoder["kind"], encoder["public"]) == ("frozen", shipped.public)
    card = (folder / "README.md").read_text()
    words = (shipped.encoder, "MIT", shipped.hours, "test sets", "WER", "Common Voice", "asr train")
    for word in words:
        assert word in card


def test_it_uses_the_language_models_of_english(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public, "load_public", fake_encoder)
    recognizer = asr.load(shipped.name)
    assert recognizer.loaded.language_model_file == SHIPPED / LANGUAGE_MODEL
    loaded = recognizer.loaded
    assert loaded.boundaries is not None and loaded.voice_activity is not None
    assert loaded.calibration is not None and loaded.plausibility is not None
    assert recognizer.decoding.fastest == 0.0
    transcript = recognizer.transcribe(SPEECH / "5683-32866-0027.flac")  # of other frames: no text
    assert transcript.seconds_per_annotation == pytest.approx(0.08)


def test_without_its_encoder_one_line_says_what_to_install(
    shipped: Shipped,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, shipped.engine, None)
    message = f"{shipped.public} is not installed: pip install"
    with pytest.raises(UserError, match=message) as caught:
        Recognizer.load(shipped.name).transcribe(SPEECH / "5683-32866-0027.flac")
    assert "\n" not in str(caught.value)


def test_it_makes_few_errors_with_its_encoder(shipped: Shipped) -> None:
    pytest.importorskip(shipped.engine)
    for package in ENCODERS[shipped.public].packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
    utterances = read_manifest(SPEECH / "manifest.jsonl")
    transcripts = asr.load(shipped.name).transcribe([each.audio for each in utterances])
    errors = ErrorCounts()
    for utterance, transcript in zip(utterances, transcripts, strict=True):
        errors += count_characters(utterance.text, transcript.text)
    assert errors.rate < HIGHEST_CER
