"""Runs that are stopped or damaged resume from their last good checkpoint, or say why not."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from test_run import CONFIG, TINY, records, weights_of
from tones import write_tones

from asr.cli import main
from asr.errors import UserError
from asr.training import loop, state
from asr.training.run import run
from asr.training.state import read_checkpoint, read_content

PLAN = [*TINY, "training.steps=8", "batches.size=12"]
LONGER = [*PLAN, "training.steps=12"]


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=20)


@pytest.fixture(scope="module")
def finished(tones, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(CONFIG, folder, tones, PLAN)
    return folder


@pytest.fixture
def begun(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def newest(folder):
    return max((folder / "checkpoints").glob("step-*.pt"))


def test_each_flipped_bit_of_a_checkpoint_is_noticed(begun):
    path = newest(begun)
    whole = path.read_bytes()
    drawn = random.Random(5)
    for _ in range(1000):
        content = bytearray(whole)
        content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
        path.write_bytes(content)
        with pytest.raises(UserError):
            read_content(path)
    path.write_bytes(whole)
    read_content(path)


def test_the_previous_checkpoint_is_used_and_said(begun, tones, capsys):
    path = newest(begun)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    run(CONFIG, begun, tones, LONGER)
    told = capsys.readouterr().err
    assert f"{path}: damaged" in told and "resuming at step 4" in told


def test_a_run_without_a_good_checkpoint_is_not_begun_anew(begun, tones):
    for path in (begun / "checkpoints").iterdir():
        path.write_bytes(b"another program's file")
    before = (begun / "metrics.jsonl").read_text()
    with pytest.raises(UserError, match=r"damaged, or not a checkpoint.*another run folder"):
        run(CONFIG, begun, tones, LONGER)
    assert (begun / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 7}, "format 7, but this version reads format 1"),
        ({"model": None}, "not a checkpoint of this program"),
        ({"progress": {"step": "4"}}, "not a checkpoint of this program: .*progress.step"),
        ({"average": {}}, "not a checkpoint of this program: KeyError"),
    ],
)
def test_a_checkpoint_of_another_version_or_program_is_one_line(begun, tones, change, message):
    content = {**read_content(newest(begun)), **change}
    if change.get("model", ...) is None:
        del content["model"]
    for path in (begun / "checkpoints").iterdir():
        torch.save(content, path)
        path.write_bytes(path.read_bytes() + state.seal(path.read_bytes()))
    with pytest.raises(UserError, match=message) as caught:
        run(CONFIG, begun, tones, LONGER)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_an_earlier_version_is_resumed(begun, tones, capsys):
    for path in (begun / "checkpoints").iterdir():
        content = read_content(path)
        for name in ("format", "fingerprint", "sums"):
            del content[name]
        torch.save(content, path)
    run(CONFIG, begun, tones, LONGER)
    assert "of an earlier version" in capsys.readouterr().err
    assert records(begun, "dev")[-1]["step"] == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["seed=9"], "seed was 1, is 9"),
        (["training.rate=0.01"], "training.rate was 0.005, is 0.01"),
        (["model.decoder.state_size=16"], "model.decoder.state_size was 12, is 16"),
    ],
)
def test_another_config_or_seed_is_named_and_refused(begun, tones, options, message):
    before = (begun / "config.json").read_bytes()
    with pytest.raises(UserError, match=f"{message}.*--continue-anyway"):
        run(CONFIG, begun, tones, [*LONGER, *options])
    assert (begun / "config.json").read_bytes() == before


def test_other_data_is_named_refused_and_used_if_wanted(begun, tones, tmp_path, capsys):
    data = Path(shutil.copytree(tones, tmp_path / "data"))
    lines = (data / "train.jsonl").read_text().splitlines(keepends=True)
    (data / "train.jsonl").write_text("".join(lines[:-1]))
    command = ["train", str(CONFIG), str(begun), "--data", str(data)]
    command += [part for each in LONGER for part in ("--set", each)]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "train.jsonl has another content" in told and "--continue-anyway" in told
    assert main([*command, "--continue-anyway"]) == 0
    told = capsys.readouterr().err
    assert "continuing anyway" in told and "resuming at step 8" in told


def test_the_same_data_elsewhere_is_the_same(begun, tones, tmp_path):
    run(CONFIG, begun, Path(shutil.copytree(tones, tmp_path / "moved")), LONGER)
    assert records(begun, "dev")[-1]["step"] == 12


def test_a_torn_line_of_the_metrics_is_mended_and_said(begun, tones, capsys):
    path = begun / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-20] + b"\xff")
    run(CONFIG, begun, tones, LONGER)
    assert f"{path}: 1 damaged lines removed" in capsys.readouterr().err
    assert [each["step"] for each in records(begun, "train")] == [2, 4, 6, 8, 10, 12]


def test_sigterm_writes_a_checkpoint_and_the_run_resumes_bit_by_bit(
    tones, tmp_path, monkeypatch, capsys
):
    plan = [*LONGER, "training.keep=9", "training.log_every=4"]
    run(CONFIG, tmp_path / "whole", tones, plan)
    step = loop._Trainer.step

    def terminated(trainer, batches):
        step(trainer, batches)
        if trainer.progress.step == 7:  # neither a step of the log nor of a validation
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(loop._Trainer, "step", terminated)
    command = ["train", str(CONFIG), str(tmp_path / "parts"), "--data", str(tones)]
    command += [part for each in plan for part in ("--set", each)]
    assert main(command) == 0
    told = capsys.readouterr()
    assert told.out == "" and "stopped by SIGTERM at step 7" in told.err
    assert newest(tmp_path / "parts").name == "step-00000007.pt"
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.setattr(loop._Trainer, "step", step)
    assert main(command) == 0
    whole, parts = weights_of(tmp_path / "whole", 12), weights_of(tmp_path / "parts", 12)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert [each["loss"] for each in records(tmp_path / "whole", "train")] == [
        each["loss"] for each in records(tmp_path / "parts", "train")
    ]


@pytest.mark.parametrize("file", ["step-", "metrics.jsonl", "model.safetensors"])
def test_a_full_disk_stops_with_the_last_checkpoint(begun, tones, monkeypatch, file):
    good = {each.name: each.read_bytes() for each in (begun / "checkpoints").iterdir()}
    opened = Path.open

    def full(path, mode="r", *rest, **named):
        if mode[0] in "wa" and path.name.startswith(file):
            found = opened(path, mode, *rest, **named)
            found.write(b"part" if "b" in mode else "part")
            found.close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return opened(path, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UserError, match=r"No space left.*step-00000008.pt is whole"):
        run(CONFIG, begun, tones, LONGER)
    monkeypatch.setattr(Path, "open", opened)
    there = {each.name: each.read_bytes() for each in (begun / "checkpoints").iterdir()}
    assert there == good
    run(CONFIG, begun, tones, LONGER)
    assert [each["step"] for each in records(begun, "train")] == [2, 4, 6, 8, 10, 12]


def test_steps_that_are_not_finite_are_skipped_and_counted(tones, tmp_path, monkeypatch):
    clip = loop.nn.utils.clip_grad_norm_
    count = iter(range(100))

    def sometimes(parameters, most):
        norm = clip(parameters, most)
        return norm * float("nan") if next(count) in (2, 5) else norm

    monkeypatch.setattr(loop.nn.utils, "clip_grad_norm_", sometimes)
    run(CONFIG, tmp_path, tones, PLAN)
    assert records(tmp_path, "train")[-1]["skipped_steps"] == 2
    checkpoint, _ = read_checkpoint(tmp_path / "checkpoints")
    assert checkpoint.content["progress"]["skipped"] == 2
    assert all(each.isfinite().all() for each in checkpoint.content["model"].values())


def test_a_run_of_steps_that_are_not_finite_stops(begun, tones, monkeypatch):
    clip = loop.nn.utils.clip_grad_norm_
    monkeypatch.setattr(loop.nn.utils, "clip_grad_norm_", lambda *each: clip(*each) * float("nan"))
    monkeypatch.setattr(loop, "MOST_BAD_STEPS", 3)
    with pytest.raises(UserError, match=r"not finite for 3 steps.*checkpoint is intact"):
        run(CONFIG, begun, tones, [*PLAN, "training.steps=100"])


def test_unreadable_audio_is_named_left_out_and_limited(tones, tmp_path, capsys, monkeypatch):
    data = Path(shutil.copytree(tones, tmp_path / "data"))
    lines = [json.loads(line) for line in (data / "train.jsonl").read_text().splitlines()]
    lost = [data / each["audio"] for each in lines[:3]]
    prepare = loop._Trainer.run_epoch

    def damage(trainer):  # after the manifest has been checked
        for path in lost:
            path.write_bytes(b"no audio")
        trainer.task.data.store._kept.clear()
        prepare(trainer)

    monkeypatch.setattr(loop._Trainer, "run_epoch", damage)
    run(CONFIG, tmp_path / "run", data, PLAN)
    told = capsys.readouterr().err
    assert "left out (3 so far, at most 20)" in told and str(lost[0]) in told
    monkeypatch.setattr("asr.training.loading.MOST_UNREADABLE", 2)
    with pytest.raises(UserError, match="3 recordings cannot be read"):
        run(CONFIG, tmp_path / "again", tones_of(tones, tmp_path / "other", lost), PLAN)


def tones_of(tones, folder, lost):
    """Return a copy whose recordings are damaged by the epoch; names as in the first copy."""
    data = Path(shutil.copytree(tones, folder))
    lost[:] = [data / each.relative_to(each.parents[1]) for each in lost]
    return data


def test_a_damaged_best_model_is_left_out_of_the_average(begun, tones, capsys):
    weights = begun / "models" / "step-00000004" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    run(CONFIG, begun, tones, PLAN)
    assert f"{weights}: damaged" in capsys.readouterr().err
    assert (begun / "model" / "model.safetensors").is_file()


def test_sigterm_stops_several_processes_at_the_same_step(tones, tmp_path):
    plan = [*TINY, "batches.size=12", "training.steps=100000", "training.processes=2"]
    plan += ["training.loaders=1"]
    command = [sys.executable, "-m", "asr", "train", str(CONFIG), str(tmp_path), "--data"]
    command += [str(tones), *(part for each in plan for part in ("--set", each))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as training:
        while not list(tmp_path.glob("checkpoints/step-*.pt")):
            assert training.poll() is None
            time.sleep(0.2)
        training.terminate()
        out, told = training.communicate(timeout=300)
    assert training.returncode == 0 and out == b"", told
    assert b"stopped by SIGTERM at step" in told
    step = int(newest(tmp_path).stem.partition("-")[2])
    assert f"at step {step};".encode() in told
    shorter = [*plan, "training.processes=1", f"training.steps={step + 2}"]
    run(CONFIG, tmp_path, tones, shorter)
    assert records(tmp_path, "dev")[-1]["step"] == step + 2


def test_epochs_without_a_step_end(tones, tmp_path):
    with pytest.raises(UserError, match=r"10 epochs without a step.*accumulate = 500"):
        run(CONFIG, tmp_path, tones, [*PLAN, "training.accumulate=500"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_line(begun, tones):
    (begun / "checkpoints").chmod(0o500)
    with pytest.raises(UserError, match="Permission denied"):
        run(CONFIG, begun, tones, LONGER)
    (begun / "checkpoints").chmod(0o700)


def test_the_time_of_a_step_is_that_of_the_steps_since_the_run_was_resumed(monkeypatch):
    clock = iter((100.0, 127.0, 147.0))
    monkeypatch.setattr(loop.time, "perf_counter", lambda: next(clock))
    progress = loop.Progress(step=251, amount=1000.0)
    meter = loop._Meter(progress)
    progress.step, progress.amount = 260, 1900.0
    assert meter.lap() == (27.0, 900.0, 9)
    progress.step = 280
    assert meter.lap() == (20.0, 0.0, 20)
