"""Layers added to an encoder by `recipes/deepen.py` change nothing until they are trained."""

import runpy
import sys
from pathlib import Path

import pytest
import torch
from tiny_model import write_tiny_model

from asr.errors import UserError
from asr.models.folder import WEIGHTS, build_with_weights, read_folder, read_weights, save_folder
from asr.models.settings import SpeechSettings
from asr.models.speech import SpeechModel, build_speech_model
from asr.tables import from_table
from asr.text.vocabulary import Vocabulary

DEEPEN = runpy.run_path(str(Path(__file__).parents[1] / "recipes" / "deepen.py"))


def deepen(source: Path, target: Path, layers: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    asked = ["deepen.py", str(source), str(target), "--layers", str(layers)]
    monkeypatch.setattr(sys, "argv", asked)
    DEEPEN["main"]()
    return target


def load(path: Path) -> SpeechModel:
    folder = read_folder(path)
    settings = from_table(SpeechSettings, folder.model)
    vocabulary = Vocabulary.from_json(folder.vocabularies["vocabulary"])
    return build_with_weights(lambda: build_speech_model(settings, len(vocabulary)), path).eval()


def write_without_reduction(tmp_path: Path) -> Path:
    source = read_folder(write_tiny_model(tmp_path / "reducing"))
    size = len(Vocabulary.from_json(source.vocabularies["vocabulary"]))
    encoder = source.model["encoder"] | {"layers_before_reduction": 2}
    model = source.model | {"encoder": encoder}
    state = build_speech_model(from_table(SpeechSettings, model), size).state_dict()
    save_folder(tmp_path / "model", "speech", model, source.vocabularies, state, {})
    return tmp_path / "model"


@pytest.mark.parametrize("reduces", [True, False])
def test_a_deeper_model_computes_the_same_and_learns(
    reduces: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write = write_tiny_model if reduces else lambda path: write_without_reduction(tmp_path)
    source = write(tmp_path / "model")
    one = load(source)
    other = load(deepen(source, tmp_path / "deeper", 4, monkeypatch))
    features, lengths = torch.randn(2, 60, 80), torch.tensor([60, 44])
    before, after = (model.encoder(features, lengths) for model in (one, other))
    assert torch.equal(before.values, after.values) and torch.equal(before.mask, after.mask)
    assert len(other.encoder.layers) == 4
    after.values.square().sum().backward()
    for name, weight in other.encoder.layers[3].named_parameters():
        if "weight_ih" in name:
            assert weight.grad.abs().max() > 0, name


def test_what_cannot_become_deeper_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = write_tiny_model(tmp_path / "model")
    with pytest.raises(UserError, match="an encoder of 2 layers cannot become one of 2"):
        deepen(source, tmp_path / "out", 2, monkeypatch)
    assert not (tmp_path / "out").exists()
    kept = read_weights(source / WEIGHTS)
    save_folder(tmp_path / "text", "translation", {"encoder": {}}, {}, kept, {})
    with pytest.raises(UserError, match="an encoder of 0 layers"):
        deepen(tmp_path / "text", tmp_path / "out", 4, monkeypatch)
