"""Fine-tuning by one command: the config fits the data's size, and what is frozen stays."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_model import write_tiny_model
from tones import write_tones

from asr.cli import main
from asr.corpora.manifest import read_manifest
from asr.errors import INTERRUPTED, UserError
from asr.training import loop, optimizer
from asr.training.config import TrainingSettings, load_config
from asr.training.finetune import LEAST, plan, write_config
from asr.training.fingerprint import fingerprint

SHORT = ["training.steps=2", "training.validate_every=1", "batches.size=12"]


@pytest.fixture(scope="module")
def tones(tmp_path_factory) -> Path:
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=30)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


def test_more_speech_gets_more_steps() -> None:
    minutes = [1, 5, 9, 10, 30, 60, 300, 3000]
    plans = [plan(60 * each) for each in minutes]
    amounts = [each.steps * each.batch for each in plans]
    assert amounts == sorted(amounts)
    assert (plans[0].steps, plans[1].steps, plans[-1].steps) == (40, 100, 4000)
    assert [bool(each.frozen) for each in plans] == [each < 10 for each in minutes]


def test_the_config_can_be_read_and_is_kept(tones: Path, model: Path, tmp_path: Path) -> None:
    manifest = tones / "train.jsonl"
    file = write_config(str(model), manifest, None, tmp_path / "run")
    config = load_config(file)
    assert config.training.start_from == str(model)
    assert config.training.frozen == ("encoder.front",)
    parts = [read_manifest(tmp_path / "run" / name) for name in ("train.jsonl", "dev.jsonl")]
    assert sorted(each.id for part in parts for each in part) == sorted(
        each.id for each in read_manifest(manifest)
    )
    file.write_text(file.read_text("utf-8").replace("rate = 0.0001", "rate = 3e-5"), "utf-8")
    assert write_config(str(model), manifest, None, tmp_path / "run") == file
    assert load_config(file).training.rate == 3e-5
    english = write_config("english", manifest, tones / "dev.jsonl", tmp_path / "english")
    assert load_config(english).data.dev == str(tones / "dev.jsonl")
    assert read_manifest(manifest)[0].duration < LEAST


def test_frozen_parts_stay_and_ctrl_c_writes_a_checkpoint(
    tones: Path, model: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    # A test run in the background ignores the signal; the handler is that of a terminal here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    step = loop._Trainer.step
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run behind "&"

    def interrupted(trainer, batches):
        step(trainer, batches)
        if trainer.progress.step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loop._Trainer, "step", interrupted)
    command = ["train", "--from", str(model), str(tones / "train.jsonl"), str(tmp_path / "run")]
    command += [part for each in SHORT for part in ("--set", each)]
    assert main(command) == INTERRUPTED
    told = capsys.readouterr()
    assert told.out == "" and "stopped by Ctrl-C at step 1" in told.err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.setattr(loop._Trainer, "step", step)
    assert main(command) == 0
    made = tmp_path / "run" / "model"
    assert capsys.readouterr().out == f"{made}\n"
    last = max((tmp_path / "run" / "models").iterdir())  # `made` is the better one on the dev set
    before, after = (load_file(each / "model.safetensors") for each in (model, last))
    for name in before:
        same = torch.equal(before[name].float(), after[name].float())
        assert same or not name.startswith("encoder.front."), name
    assert any(not torch.equal(before[name].float(), after[name].float()) for name in before)


def test_the_time_that_is_left_is_estimated(
    tones: Path, model: Path, tmp_path: Path, capsys
) -> None:
    command = ["train", "--from", str(model), str(tones / "train.jsonl"), str(tmp_path / "run")]
    command += [part for each in (*SHORT, "training.log_every=1") for part in ("--set", each)]
    main(command)
    lines = [line for line in capsys.readouterr().err.splitlines() if "s a step" in line]
    assert len(lines) == 1 and "the remaining 1 steps take about" in lines[0]


def test_mistakes_are_one_line(tones: Path, model: Path, tmp_path: Path, capsys) -> None:
    run = str(tmp_path / "run")
    short = tmp_path / "short.jsonl"
    lines = (tones / "train.jsonl").read_text("utf-8").splitlines()[:2]
    records = [json.loads(line) for line in lines]
    for record in records:
        record["audio"] = str(tones / record["audio"])
    short.write_text("\n".join(map(json.dumps, records)), "utf-8")
    manifest = str(tones / "train.jsonl")
    for arguments, message in [
        (["--from", str(model), str(short), run], "wanted at least 20 s"),
        ([manifest, run], "wanted a .toml config, or --from MODEL"),
        (["--from", "english-french", manifest, run], "one for speech is wanted"),
        (["--from", "english", manifest, run, "--data", "."], "--from and --data"),
        ([manifest, run, "--dev", "dev.jsonl"], "--dev belongs to --from"),
    ]:
        assert main(["train", *arguments]) == 2
        (line,) = [each for each in capsys.readouterr().err.splitlines() if "error" in each]
        assert message in line
    with pytest.raises(UserError, match="has no part 'ears'"):
        optimizer.freeze(torch.nn.Linear(2, 2), ["ears"])
    with pytest.raises(UserError, match="leaves nothing to train"):
        optimizer.freeze(torch.nn.Sequential(torch.nn.Linear(2, 2)), ["0"])


def test_earlier_runs_resume_without_the_keys(tones: Path, model: Path, tmp_path: Path) -> None:
    file = write_config(str(model), tones / "train.jsonl", tones / "dev.jsonl", tmp_path)
    plain = load_config(file, ["training.frozen=[]"])
    assert plain.training.frozen == TrainingSettings().frozen
    without = fingerprint(plain, tmp_path, tmp_path).config
    assert not {"training.frozen", "teacher.outputs", "teacher.alignments"} & without.keys()
    assert "training.frozen" in fingerprint(load_config(file), tmp_path, tmp_path).config
    key = "model.attention.triton"
    assert key not in fingerprint(plain, tmp_path, tmp_path).config
    changed = load_config(file, [f"{key}=true"])
    assert key in fingerprint(changed, tmp_path, tmp_path).config
