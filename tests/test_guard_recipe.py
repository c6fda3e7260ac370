"""recipes/guard.py makes what is not English, fits the score, reports and saves it."""

import json
import runpy
from pathlib import Path

import numpy as np
from tiny_model import write_tiny_model

from asr.audio.read import read
from asr.inference.plausibility import Plausibility, TextEvidence
from asr.inference.recognizer import Recognizer

ROOT = Path(__file__).parents[1]
RECIPE = runpy.run_path(str(ROOT / "recipes" / "guard.py"))
Measured = RECIPE["Measured"]


def clips(count, agreement, seed):
    """Return clips whose text agrees with CTC by about `agreement`."""
    random = np.random.default_rng(seed)
    evidence = [
        TextEvidence(-0.3, -0.3, float(random.normal(agreement, 0.1)), -0.2, 3.0)
        for _ in range(count)
    ]
    return [Measured(5.0, [10], [each]) for each in evidence]


def test_the_score_tells_what_agrees_from_what_does_not():
    english, other = clips(400, 0.9, 0), clips(300, 0.1, 1)
    score = RECIPE["fit"]([english], [other])
    assert score.agreement > 1
    assert RECIPE["row"]("a", english, score)[4] == "0.0%"
    assert RECIPE["row"]("b", other, score)[4] == "100.0%"
    assert RECIPE["row"]("b", other, score)[2:4] == ("7200", "0")  # words an hour, and after


def test_few_english_segments_are_marked_even_where_the_kinds_overlap():
    english, other = clips(400, 0.6, 0), clips(400, 0.5, 1)
    score = RECIPE["fit"]([english], [other])
    marked = np.mean([score(each.evidence[0]) < 0.5 for each in english])
    assert marked <= 0.0051


def test_what_is_made_differs_and_is_sound():
    random = np.random.default_rng(0)
    for make in ("music", "sweeps"):
        one, two = RECIPE[make](2, random)
        assert one.dtype == np.float32 and 0.01 < one.std() < 0.5
        assert not np.array_equal(one, two)


def test_clips_of_the_report_are_kept_by_kind(tmp_path):
    quiet, loud = np.zeros(160, np.float32), np.full(320, 0.5, np.float32)
    RECIPE["keep"]({"tone sweeps": [quiet, loud], "music": [loud]}, tmp_path / "kept")
    assert sorted(each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*.flac")) == [
        "kept/music/00.flac",
        "kept/tone sweeps/00.flac",
        "kept/tone sweeps/01.flac",
    ]
    samples = read(tmp_path / "kept" / "tone sweeps" / "01.flac").samples
    np.testing.assert_allclose(samples, loud, atol=1e-4)


def test_segments_keep_their_own_evidence(tmp_path):
    recognizer = Recognizer.load(write_tiny_model(tmp_path / "tiny"))
    paths = sorted((ROOT / "data" / "speech").glob("*.flac"))[:1] * 2
    one, two = RECIPE["measure"](recognizer, paths)
    assert one.evidence
    np.testing.assert_allclose(one.evidence, two.evidence, rtol=1e-4)
    assert one.words == two.words


def test_the_score_is_saved_with_the_model(tmp_path):
    folder = write_tiny_model(tmp_path / "tiny")
    score = Plausibility(0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
    RECIPE["save"](folder, score)
    assert Recognizer.load(folder).loaded.plausibility == score
    assert "plausibility" in json.loads((folder / "config.json").read_text("utf-8"))
