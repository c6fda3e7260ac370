"""Training with weights of few bits: rounded in the loss, whole in between, rounded at the end."""

import json
from pathlib import Path

import pytest
import torch
from tones import write_tones
from torch import nn

from asr.errors import UserError
from asr.models import rounding
from asr.models.folder import copy_folder, read_weights
from asr.models.rounding import rounded
from asr.training.rounding import Rounding
from asr.training.run import run

CONFIG = Path(__file__).parents[2] / "recipes" / "tones" / "tones.toml"
SMALL = [
    "model.encoder.state_size=16",
    "model.decoder.state_size=16",
    "batches.size=12.0",
    "training.device=cpu",
    "training.steps=4",
    "training.validate_every=2",
    "training.log_every=1",
]


def linear():
    torch.manual_seed(4)
    return nn.Linear(128, 128)


@pytest.mark.parametrize("bits", [8, 4, 3])
def test_the_gradient_is_that_of_the_rounded_weights(bits):
    model, plain = linear(), linear()
    whole = model.weight.detach().clone()
    with torch.no_grad():
        plain.weight.copy_(rounded(whole, bits).values())
    values = torch.randn(5, 128)
    with Rounding(model, bits).in_place():
        model(values).square().sum().backward()
    plain(values).square().sum().backward()
    torch.testing.assert_close(model.weight.grad, plain.weight.grad)
    torch.testing.assert_close(model.weight.detach(), whole, atol=0, rtol=0)
    assert not torch.equal(plain.weight, model.weight)
    assert torch.equal(plain.bias, model.bias)


def test_the_weights_are_whole_again_after_an_error():
    model = linear()
    with pytest.raises(ZeroDivisionError), Rounding(model, 4).in_place():
        raise ZeroDivisionError
    assert torch.equal(model.weight, linear().weight)


def test_32_bits_change_nothing():
    model = linear()
    Rounding(model, 32).apply()
    with Rounding(model, 32).in_place():
        assert torch.equal(model.weight, linear().weight)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_finished_run_is_stored_in_4_bits_without_loss(tmp_path, monkeypatch, keep):
    """With one model kept it is that model, with two their average where that is better."""
    monkeypatch.setattr(rounding, "LEAST", 256)
    tones = write_tones(tmp_path / "tones", utterances=24)
    model = run(
        CONFIG, tmp_path / "run", tones, [*SMALL, f"training.keep={keep}", "training.bits=4"]
    )
    copy_folder(model, tmp_path / "stored", 4)
    before = read_weights(model / "model.safetensors")
    after = read_weights(tmp_path / "stored" / "model.safetensors")
    matrices = [name for name, value in before.items() if value.dim() > 1]
    for name in matrices:
        torch.testing.assert_close(after[name], before[name], rtol=1e-6, atol=0)
    step = next((tmp_path / "run" / "models").iterdir()) / "model.safetensors"
    assert any(not torch.equal(read_weights(step)[name], before[name]) for name in matrices)


def test_loss_and_validation_are_those_of_rounded_weights(tmp_path, monkeypatch):
    """With a rate of 0 all steps have the weights that the run began with."""
    monkeypatch.setattr(rounding, "LEAST", 256)
    tones = write_tones(tmp_path / "tones", utterances=24)
    figures = []
    for bits in (32, 4):
        folder = tmp_path / str(bits)
        plan = [*SMALL, "training.rate=0.0", "training.steps=2", f"training.bits={bits}"]
        run(CONFIG, folder, tones, plan)
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        figures.append({line["kind"]: line for line in lines})
    whole, rounds = figures
    assert whole["train"]["loss"] != rounds["train"]["loss"]
    assert whole["dev"]["entropy"] != rounds["dev"]["entropy"]


def test_other_numbers_of_bits_are_refused(tmp_path):
    with pytest.raises(UserError, match="bits must be 32, 8, 4 or 3, not 5"):
        run(CONFIG, tmp_path / "run", tmp_path, ["training.bits=5"])
