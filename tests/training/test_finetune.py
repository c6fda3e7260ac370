"""Fine-tuning by one command: the config fits the data's size, and what is frozen stays."""

import json
import os
import re
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
from asr.training.tasks.speech import selection_figure

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


def test_of_models_without_an_error_the_one_with_the_better_ctc_is_selected() -> None:
    """One minute of speech leaves one utterance to validate on, which all models may write well."""
    none = {"wer": 0.0, "cer": 0.0, "ctc_cer": 0.0}
    ranked = [none, none | {"ctc_cer": 90.0}, none | {"cer": 0.1}, none | {"wer": 0.1}]
    figures = [selection_figure(each) for each in ranked]
    assert figures == sorted(figures) and len(set(figures)) == 4
    assert selection_figure({"wer": 5.0, "cer": 2.0}) == pytest.approx(5.002)  # without CTC


def test_the_config_can_be_read_and_is_kept(tones: Path, model: Path, tmp_path: Path) -> None:
    manifest = tones / "train.jsonl"
    file = write_config(str(model), manifest, None, tmp_path / "run")
    config = load_config(file)
    assert config.training.start_from == str(model)
    assert config.training.frozen == ("encoder.front",)
    assert config.data.audio_in == str(tones)
    names = "train.jsonl", "dev.jsonl"
    parts = [read_manifest(tmp_path / "run" / name, tones) for name in names]
    assert sorted(each.id for part in parts for each in part) == sorted(
        each.id for each in read_manifest(manifest)
    )
    file.write_text(file.read_text("utf-8").replace("rate = 0.0001", "rate = 3e-5"), "utf-8")
    assert write_config(str(model), manifest, None, tmp_path / "run") == file
    assert load_config(file).training.rate == 3e-5
    english = write_config("english", manifest, tones / "dev.jsonl", tmp_path / "english")
    data = load_config(english).data
    assert (data.dev, data.audio_in) == (str(tones / "dev.jsonl"), "")
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
        (["--from", str(model), str(short), run], "problems; correct or remove these lines"),
        (
            ["--from", str(model), str(short), run, "--audio-in", str(tones)],
            "wanted at least 20 s",
        ),
        ([manifest, run, "--audio-in", "."], "--audio-in belongs to --from"),
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


# the run folder: what was begun is resumed, and nothing else is touched


@pytest.fixture(scope="module")
def finished(tones: Path, model: Path, tmp_path_factory) -> Path:
    """A finished run on train.jsonl without --dev."""
    run = tmp_path_factory.mktemp("runs") / "run"
    assert main(command(model, tones / "train.jsonl", run)) == 0
    return run


def command(model: object, manifest: Path, run: Path, *more: object) -> list[str]:
    settings = [part for each in SHORT for part in ("--set", each)]
    return ["train", "--from", str(model), str(manifest), str(run), *settings, *map(str, more)]


def part_of(manifest: Path, target: Path, keep: slice, **changes: object) -> Path:
    """Write a part of a manifest, each line changed, with absolute paths."""
    lines = []
    for line in manifest.read_text("utf-8").splitlines()[keep]:
        record = json.loads(line)
        record["audio"] = str(manifest.parent / record["audio"])
        lines.append(json.dumps(record | changes))
    target.write_text("\n".join(lines) + "\n", "utf-8")
    return target


def test_a_finished_run_says_so(tones: Path, model: Path, finished: Path, capsys) -> None:
    assert main(command(model, tones / "train.jsonl", finished)) == 0
    told = capsys.readouterr()
    assert "already finished, at step 2" in told.err and told.out == f"{finished / 'model'}\n"
    again = ["train", str(finished / "finetune.toml"), str(finished), "--set", "batches.size=12"]
    again += ["--set", "training.validate_every=1", "--set", "training.steps=1"]
    assert main(again) == 0
    assert "at step 2, beyond training.steps = 1: it ends here" in capsys.readouterr().err
    again[-1] = "training.steps=3"
    assert main(again) == 0
    assert "resuming at step 2 (epoch 0); training.steps is now 3, it was " in (
        capsys.readouterr().err
    )


def test_the_gain_is_stated(tones: Path, model: Path, tmp_path: Path, capsys) -> None:
    dev, run = tones / "dev.jsonl", tmp_path / "run"
    assert main(command(model, tones / "train.jsonl", run, "--dev", dev)) == 0
    lines = capsys.readouterr().err.splitlines()
    (chosen,) = [each for each in lines if "best single" in each]
    last = lines[-1]
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    rates = {each["step"]: each["wer"] for each in entries if each["kind"] == "dev"}
    found = re.fullmatch(
        r"average of 3 models: wer (.*); best single model, of step (\d): wer (.*); kept: the (.*)",
        chosen,
    )
    assert found is not None
    average, step, best, kept = found.groups()
    assert best == f"{rates[int(step)]:.2f}"
    after = float(average if kept == "average" else best)
    count = len(dev.read_text("utf-8").splitlines())
    assert last == (
        f"WER on the {count} utterances to validate on, greedy search: before {rates[0]:.1f} %, "
        f"after {after:.1f} %; next, with recordings of neither part: asr evaluate TEST.jsonl "
        f"-m {run / 'model'}"
    )


def test_another_model_manifest_or_dev_set_is_refused(
    tones: Path, model: Path, finished: Path, tmp_path: Path, capsys
) -> None:
    manifest = tones / "train.jsonl"
    half = part_of(manifest, tmp_path / "half.jsonl", slice(0, 24))
    other = part_of(manifest, tmp_path / "other.jsonl", slice(None), text="do", norm="do")
    for arguments, message in [
        (command("english", manifest, finished), f"the model was {model}, is "),
        (command(model, half, finished, "--audio-in", tones), "has 6 utterances fewer, such as"),
        (command(model, other, finished, "--audio-in", tones), "30 utterances changed"),
        (command(model, manifest, finished, "--dev", tones / "dev.jsonl"), "--dev was not given"),
    ]:
        assert main(arguments) == 2
        told = capsys.readouterr()
        assert message in told.err and "wanted a new run folder" in told.err and told.out == ""


def test_another_dev_set_than_the_given_one_is_refused(
    tones: Path, model: Path, tmp_path: Path, capsys
) -> None:
    manifest, dev, run = tones / "train.jsonl", tones / "dev.jsonl", tmp_path / "run"
    assert main(command(model, manifest, run, "--dev", dev)) == 0
    capsys.readouterr()
    assert main(command(model, manifest, run)) == 2
    assert f"--dev was {dev}, is not given" in capsys.readouterr().err
    assert main(command(model, dev, run, "--dev", dev)) == 2
    assert f"the manifest was {manifest}, is {dev}" in capsys.readouterr().err


def test_folders_that_hold_no_run_are_refused(
    tones: Path, model: Path, tmp_path: Path, capsys
) -> None:
    recordings = tmp_path / "recordings" / "day"
    recordings.mkdir(parents=True)
    (recordings / "a.wav").write_bytes(b"")
    file = tmp_path / "file"
    file.write_text("", "utf-8")
    for folder, message in [
        (recordings, "holds a.wav and no run"),
        (recordings.parent, "holds day and no run"),
        (file, "a file; wanted a folder"),
        (model, "a model; wanted a new folder"),
    ]:
        before = sorted(folder.rglob("*"))
        for arguments in (
            command(model, tones / "train.jsonl", folder),
            ["train", "recipes/tones/tones.toml", str(folder), "--data", str(tones)],
        ):
            assert main(arguments) == 2
            assert message in capsys.readouterr().err
            assert sorted(folder.rglob("*")) == before
    logs = tmp_path / "run"
    logs.mkdir()
    (logs / "log.txt").write_text("", "utf-8")
    assert main(command(model, tones / "train.jsonl", logs)) == 0


def test_nothing_is_written_before_everything_is_checked(
    tones: Path, model: Path, tmp_path: Path, capsys
) -> None:
    run = tmp_path / "run"
    bad = part_of(tones / "train.jsonl", tmp_path / "bad.jsonl", slice(None))
    bad.write_text(bad.read_text("utf-8").replace('"duration": ', '"duration": 9', 1), "utf-8")
    assert main(command(model, bad, run, "--audio-in", tones)) == 2
    assert f"{bad}:1: duration is given as" in capsys.readouterr().err
    assert not run.exists()
    good = part_of(tones / "train.jsonl", bad, slice(None))
    assert main(command(model, good, run)) == 2
    assert f"{good}:1: audio outside of {tmp_path}" in capsys.readouterr().err and not run.exists()
    allowed = ("--audio-in", tones)
    assert main(command(model, good, run, *allowed, "--set", "training.stps=3")) == 2
    assert "did you mean steps" in capsys.readouterr().err and not run.exists()
    assert main(command(model, good, run, *allowed)) == 0


def test_recordings_on_both_sides_are_a_warning(
    tones: Path, model: Path, tmp_path: Path, capsys
) -> None:
    manifest = tones / "train.jsonl"
    for dev, count in ((manifest, 1), (tones / "dev.jsonl", 0)):
        write_config(str(model), manifest, dev, tmp_path / f"run{count}")
        told = capsys.readouterr().err
        assert told.count("30 recordings to validate on are also trained on") == count
        assert "dropped" not in told
    strange = part_of(manifest, tmp_path / "strange.jsonl", slice(None), text="東京 do", norm=None)
    write_config(str(model), strange, tones / "dev.jsonl", tmp_path / "strange", audio_in=tones)
    assert "60 characters that the model cannot write are dropped" in capsys.readouterr().err


def test_what_is_no_manifest_or_model(tones: Path, model: Path, tmp_path: Path, capsys) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("audio,text\na.wav,hello\n", "utf-8")
    for start, manifest, message in [
        (model, table, f"a table; wanted a manifest: asr prepare table {table} mine.jsonl"),
        (model, tmp_path, "a folder; wanted a manifest: asr prepare folder"),
        ("englsh", table, "english-plus-small, english-small); did you mean english?"),
    ]:
        assert main(command(start, manifest, tmp_path / "run")) == 2
        assert message in capsys.readouterr().err
