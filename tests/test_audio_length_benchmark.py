"""The cost against the length of a recording."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tiny_model import write_tiny_model

from asr.corpora.manifest import read_manifest
from asr.errors import UserError

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
    file = tmp_path / "recording.wav"
    soundfile.write(file, script["recording"](read_manifest(MANIFEST), 3), 16_000)
    cost = script["transcribe"](script["Job"](model, "greedy", file))
    assert 0 < cost.seconds < 10 and cost.megabytes > 50
    with pytest.raises(UserError, match="window"):  # so a window is used
        script["transcribe"](script["Job"](model, "greedy", file, (0.4, 0)))


def test_the_figures_have_a_row_for_each_search_with_and_without_a_window(tmp_path):
    file = tmp_path / "figures.json"
    model = str(write_tiny_model(tmp_path / "tiny"))
    command = [SCRIPT, str(MANIFEST), "--seconds", "3", "--model", model, "--json", str(file)]
    command = [sys.executable, *command, "--window", "0.4,0.8"]
    subprocess.run(command, check=True, capture_output=True)
    rows = json.loads(file.read_text())
    assert [(row["length"], row["search"], row["window"]) for row in rows] == [
        (3, "greedy", None), (3, "greedy", [0.4, 0.8]),
        (3, "default", None), (3, "default", [0.4, 0.8]),
    ]  # fmt: skip
    assert all(row["seconds"] > 0 and row["megabytes"] > 50 for row in rows)
