"""The benchmarks of cost: what they count, and what one run of all of them writes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tones import write_tones

from asr.corpora.manifest import read_manifest
from asr.errors import UserError
from asr.models.settings import SpeechSettings
from asr.models.speech import build_speech_model
from asr.tables import from_table
from asr.training.config import load_config
from asr.training.tasks.speech import SpeechTask

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import cost  # of benchmarks/
import lower_bound
import search_cost
import training_stages

SPEECH = Path(__file__).parents[1] / "data" / "speech"
TONES = Path(__file__).parents[1] / "recipes" / "tones" / "tones.toml"


def test_operations_of_the_encoder_are_those_of_its_sizes():
    """Two layers of two directions: 4H gates of H + 2H inputs, at 40 and at 80 ms."""
    table = {"encoder": {"channels": 4, "state_size": 8, "layers": 2, "layers_before_reduction": 1}}
    model = build_speech_model(from_table(SpeechSettings, table), 31)
    features, frames = torch.randn(3, 40, 80), torch.tensor([40, 33, 12])
    rows = training_stages.rows_of_layers(model, lambda: model.encoder(features, frames))
    assert list(rows.values()) == [30, 15]
    found = training_stages.recurrent_operations(model, rows)
    assert found == 2 * (30 + 15) * 2 * (4 * 8) * (16 + 8)


def test_a_step_is_measured_by_its_parts(tmp_path, monkeypatch, capsys):
    tones = write_tones(tmp_path, utterances=24)
    command = ["training_stages.py", str(TONES), "--data", str(tones), "--batches", "1"]
    monkeypatch.setattr(sys, "argv", [*command, "--json", str(tmp_path / "figures.json")])
    training_stages.main()
    rows = capsys.readouterr().out.splitlines()[-7:]
    names = [row.split("  ")[0] for row in rows]
    assert names == [
        "recordings, augmentation", "features", "encoder", "CTC", "decoder", "whole step",
        "optimiser",
    ]  # fmt: skip
    assert (tmp_path / "figures.json").exists()


def test_a_measured_batch_leaves_no_gradients_to_the_next(tmp_path):
    config = load_config(TONES, ["training.device=cpu"])
    task = SpeechTask(config, write_tones(tmp_path, utterances=24), TONES.parent)
    task.begin()
    stages = training_stages.Stages()
    training_stages.measure_batch(task, stages, 0, task.plan(0)[0])
    assert all(each.grad is None for each in task.model.parameters())
    assert stages.seconds["encoder"] > 0 and stages.operations["decoder"] > 0


@pytest.mark.parametrize("location", [False, True])
@pytest.mark.parametrize("beam", [1, 3])
def test_our_search_runs_to_the_length_that_is_measured(monkeypatch, location, beam):
    monkeypatch.setattr(search_cost, "STEPS", 7)
    monkeypatch.setattr(search_cost, "LENGTH", 9)
    search_cost.ours(search_cost.Case(location, beam, 2))()  # asserts the length itself


def test_the_table_of_searches_says_what_was_not_measured():
    rows = [
        search_cost.Figures("content", 10, 1, 151.4, None, None),
        search_cost.Figures("location", 1, 16, 25.0, 33.1, 1.324),
    ]
    lines = search_cost.table(rows).splitlines()[2:]
    assert lines[0].split() == ["content", "10", "1", "151", "–", "–"]
    assert lines[1].split() == ["location", "1", "16", "25", "33", "1.32×"]


FIGURES = {
    "step": [
        {"size": "small", "case": "content", "cpu": 1.0, "peer_cpu": None},
        {"size": "small", "case": "window", "cpu": 0.5, "peer_cpu": 2.0},
    ],
    "search": [{"attention": "content", "beam": 10, "together": 8, "ours": 90.0, "peer": 170.0}],
    "recognisers": [{"english": {"wer": 0.1, "cpu": 0.1}, "hama": {"wer": 0.2, "cpu": 0.15}}],
    "lengths": [
        {"length": length, "search": "greedy", "window": window, "seconds": 0.03 * length}
        for length in (10, 60)
        for window in (None, [0.4, 0.8])
    ],
    "stages": {
        "seconds": {"encoder": 3.0, "features": 0.2},
        "operations": {"encoder": 1e11},
        "audio": 150.0,
        "rate": 7e10,
    },
    "footprint": {"packages": {"asr": 79.0, "numpy": 40.0}, "commands": {}},
}


@pytest.fixture
def parts(monkeypatch):
    """Let each part write its figures of `FIGURES`, but for those of the set that is returned."""
    failing = set()

    def run(arguments, figures):
        if figures.stem in failing:
            return 1, ""
        figures.write_text(json.dumps(FIGURES[figures.stem]))
        return 0, f"table of {arguments[0]}"

    monkeypatch.setattr(cost, "run", run)
    return failing


def call_cost(monkeypatch, folder, *more):
    command = ["cost.py", str(folder), "--librispeech", "m.jsonl", "--data", "corpora", *more]
    monkeypatch.setattr(sys, "argv", command)
    return cost.main()


def test_one_run_writes_report_figures_and_picture(parts, tmp_path, monkeypatch):
    assert call_cost(monkeypatch, tmp_path, "--ids", "ids.txt", "--lengths", "10", "60") == 0
    assert json.loads((tmp_path / "figures.json").read_text()) == FIGURES
    report = (tmp_path / "report.md").read_text()
    wanted = "python benchmarks/recognisers.py m.jsonl --ids ids.txt --every 16"
    assert f"    {wanted}\n\ntable of recognisers.py\n" in report
    assert "--window 0.4,0.8 --seconds 10 60\n\ntable of audio_length.py" in report
    assert report.count("table of") == len(FIGURES) == len(cost.DRAWINGS)
    assert (tmp_path / "figures.png").read_bytes().startswith(b"\x89PNG")


def test_a_part_that_fails_is_named_and_the_rest_kept(parts, tmp_path, monkeypatch):
    parts.add("search")
    with pytest.raises(UserError, match="not measured: search; the rest is in"):
        call_cost(monkeypatch, tmp_path, "--only", "search", "footprint")
    assert json.loads((tmp_path / "figures.json").read_text()) == {
        "footprint": FIGURES["footprint"]
    }
    parts.add("footprint")
    with pytest.raises(UserError, match="no part could be measured: search, footprint"):
        call_cost(monkeypatch, tmp_path / "none", "--only", "search", "footprint")


def test_a_part_is_a_process_whose_figures_are_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "HERE", tmp_path)
    (tmp_path / "part.py").write_text("import sys; print(sys.argv[1:]); sys.exit(3)")
    status, printed = cost.run(["part.py", "one"], tmp_path / "figures.json")
    assert status == 3
    assert printed == f"['one', '--json', '{tmp_path / 'figures.json'}']\n"


def test_products_are_counted_by_their_shapes_and_timed_alone():
    products = lower_bound.Products()
    matrix = np.ones((300, 400), np.float32)
    with products.counted():
        for _ in range(3):
            np.matmul(np.ones((2, 300), np.float32), matrix)
        out = np.empty((1, 400), np.float32)
        assert np.matmul(matrix[:1, :300], matrix, out=out) is out
    np.matmul(matrix, matrix.T)  # not counted
    assert products.counts == {((2, 300), (300, 400)): 3, ((1, 300), (300, 400)): 1}
    assert products.alone() > 0 and products.seconds > 0


def test_a_transcription_has_its_products_counted():
    utterances = read_manifest(SPEECH / "manifest.jsonl")[:1]
    total, in_use, _ = lower_bound.measure("english", "greedy", utterances)
    assert 0 < in_use < total
