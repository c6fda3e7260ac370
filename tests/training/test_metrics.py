"""What a run logs of its steps, and which model it keeps at the end."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from asr.errors import UserError
from asr.training import loop
from asr.training import run as runs
from asr.training.config import TrainingSettings
from asr.training.contract import Losses, Term, Validation
from asr.training.rounding import FULL, Rounding
from asr.training.state import Progress, read_checkpoint

SETTINGS = {"rate": 1e-3, "warmup_steps": 0, "decay_share": 0.0, "device": "cpu", "average": 0.0}


class Constant:
    """A task whose loss is 1, but NaN at some steps."""

    unit = "tokens"

    def __init__(self, bad=()):
        self.model = nn.Linear(1, 1)
        self.bad = bad

    def begin(self):
        pass

    def plan(self, epoch):
        return [[0]] * 40

    def make(self, epoch, position, indices, part=slice(None)):
        return None

    def loss(self, batch, step):
        value = 1 + 0 * self.model.weight.sum() + (torch.nan if step in self.bad else 0)
        return Losses([Term(value * (1 + 0 * self.model.bias.sum()), {}, 1.0)], 1.0)

    def validate(self, step, folder):
        return Validation(1.0, {"figure": 1.0}, "")

    def save(self, folder):
        folder.mkdir(parents=True)


def train(folder, steps, task=None, **settings):
    folder.mkdir(exist_ok=True)
    checkpoint, _ = read_checkpoint(folder / "checkpoints")
    given = TrainingSettings(**{**SETTINGS, "steps": steps, **settings})
    loop.train(task or Constant(), given, folder, 1, checkpoint)

    def no_constant(name):
        raise AssertionError(f"{name} is not JSON")

    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [
        each
        for each in (json.loads(line, parse_constant=no_constant) for line in lines)
        if each["kind"] == "train"
    ]


def test_the_mean_is_that_of_the_steps_also_if_log_every_has_changed(tmp_path):
    train(tmp_path, 20, log_every=100, validate_every=20)
    found = train(tmp_path, 24, log_every=2, validate_every=20)
    assert [each["loss"] for each in found] == [1.0, 1.0]


def test_a_bad_step_does_not_count_and_leaves_valid_json(tmp_path):
    found = train(tmp_path, 4, Constant(bad=(1, 2, 3)), log_every=2, validate_every=4)
    assert [each["loss"] for each in found] == [1.0, None]
    assert [each["skipped_steps"] for each in found] == [1, 3]


def test_training_seconds_are_those_of_all_steps_without_validations(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock.now)
    task = Constant()
    loss = task.loss

    def a_second(batch, step):
        clock.now += 1
        return loss(batch, step)

    def an_hour(step, folder):
        clock.now += 3600
        return Validation(1.0, {"figure": 1.0}, "")

    task.loss, task.validate = a_second, an_hour
    found = train(tmp_path, 12, task, log_every=4, validate_every=3)
    assert [each["training_seconds"] for each in found] == [4, 8, 12]
    assert [each["tokens_per_second"] for each in found] == [1, 1, 1]


def test_the_average_is_compared_with_the_best_model_that_can_be_read(tmp_path, monkeypatch):
    task = Constant()
    saved = []
    task.validate = lambda step, folder: Validation(3.0, {}, "")
    task.save = lambda folder: saved.append(task.model.weight.item())

    def load(model, path):
        if path.name.endswith("1"):
            raise UserError("damaged")
        nn.init.constant_(model.weight, float(path.name[-1]))

    monkeypatch.setattr(runs, "load_weights", load)
    progress = Progress(best=[(1.0, 1), (5.0, 2), (6.0, 4)])
    runs._finish(task, progress, tmp_path, Rounding(task.model, FULL))
    assert saved == [pytest.approx(3.0)]  # the average of the models of steps 2 and 4
