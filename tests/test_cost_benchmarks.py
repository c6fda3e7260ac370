"""What `benchmarks/training_stages.py` counts, and the searches of `benchmarks/search_cost.py`."""

import sys
from pathlib import Path

import pytest
import torch
from tones import write_tones

from asr.models.settings import SpeechSettings
from asr.models.speech import build_speech_model
from asr.tables import from_table
from asr.training.config import load_config
from asr.training.tasks.speech import SpeechTask

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import search_cost  # of benchmarks/
import training_stages

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
