"""The cost against the length of a recording."""

import runpy
from pathlib import Path

import numpy as np
from tiny_model import write_tiny_model

from asr.corpora.manifest import read_manifest

ROOT = Path(__file__).parents[1]
SCRIPT = str(ROOT / "benchmarks" / "audio_length.py")
MANIFEST = ROOT / "data" / "speech" / "manifest.jsonl"


def test_a_recording_has_the_length_and_repeats_what_it_is_made_of():
    script = runpy.run_path(SCRIPT)
    (first, *_) = read_manifest(MANIFEST)
    found = script["recording"]([first], 20)
    period = round(16_000 * (first.duration + 0.5))
    assert len(found) == 20 * 16_000 and period < len(found) / 2
    np.testing.assert_array_equal(found[:period], found[period : 2 * period])
    assert not found[period - 8_000 : period].any()


def test_a_row_is_measured(tmp_path):
    script = runpy.run_path(SCRIPT)
    model = str(write_tiny_model(tmp_path / "tiny"))
    samples = script["recording"](read_manifest(MANIFEST), 3)
    cost = script["transcribe"](script["Job"](model, "greedy", samples))
    assert 0 < cost.seconds < 10 and cost.megabytes > 50
