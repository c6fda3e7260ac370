"""recipes/confidence.py fits, reports, draws and saves a calibration of word confidence."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny_model import write_tiny_model

from asr.inference.confidence import Calibration
from asr.inference.recognizer import Recognizer

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "recipes" / "confidence.py"
RECIPE = runpy.run_path(str(SCRIPT))
MANIFEST = ROOT / "data" / "speech" / "manifest.jsonl"


def words(count, seed, calibration=(0.4, 0.7, 3.0)):
    """Draw words whose probability of being right is that of a calibration."""
    random = np.random.default_rng(seed)
    features = np.stack(
        [np.ones(count), random.normal(1, 2, count), random.normal(-0.3, 0.3, count)], axis=1
    )
    right = random.random(count) < 1 / (1 + np.exp(-features @ np.array(calibration)))
    return RECIPE["Words"](features, right)


def test_the_weights_that_made_the_words_are_found():
    found = RECIPE["fit"]([words(20_000, 1), words(40_000, 2)])
    assert (found.bias, found.word, found.score) == pytest.approx((0.4, 0.7, 3.0), abs=0.12)
    given = words(9, 1)
    own = given.confidences(Calibration(0.0, 1.0, 0.0))
    assert np.log(own / (1 - own)) == pytest.approx(given.features[:, 1])


def test_each_list_has_the_same_weight():
    few, many = words(2_000, 3, (3.0, 0.5, 0.0)), words(20_000, 4, (-1.0, 0.5, 0.0))
    both = RECIPE["fit"]([few, many])
    again = RECIPE["fit"]([few, RECIPE["Words"](*(np.concatenate([each] * 3) for each in many))])
    assert both.bias == pytest.approx(again.bias, abs=0.01)
    assert 0 < both.bias < 2


def test_it_is_fitted_drawn_and_saved(tmp_path, monkeypatch, capsys):
    model = write_tiny_model(tmp_path / "tiny")
    ids, picture = tmp_path / "two.txt", tmp_path / "c.png"
    ids.write_text("5683-32866-0027\n672-122797-0000\n", "utf-8")
    lists = ["--fit", MANIFEST, ids, "--report", MANIFEST, ids]
    arguments = [SCRIPT, model, *lists, "--picture", picture, "--save"]
    monkeypatch.setattr(sys, "argv", [str(each) for each in arguments])
    RECIPE["main"]()
    out = capsys.readouterr().out
    assert "Calibration(bias=" in out and "two" in out and "calibrated" in out
    assert picture.stat().st_size > 1000
    saved = Recognizer.load(model).loaded.calibration
    assert saved is not None and f"bias={saved.bias}" in out
