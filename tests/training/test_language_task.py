"""The language task: windows of text, falling perplexity, and a model that can be loaded."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from asr.errors import UserError
from asr.models.folder import read_folder
from asr.text.vocabulary import BLANK, EOS, SPECIALS, UNK, Vocabulary
from asr.training.config import LanguageConfig, config_from_table, load_config
from asr.training.run import run
from asr.training.tasks.language import LanguageTask

LINES = ["one two three four", "five six one", "two three four five six"] * 40
CONFIG = """
task = "language"
[data]
train = ["text.txt"]
dev = "dev.jsonl"
words = 5
window = 6
[model]
embedding_size = 8
state_size = 16
vector_size = 8
cutoffs = [5]
dropout = 0.0
[batches]
size = 48.0
[training]
steps = 150
rate = 0.03
warmup_steps = 5
average = 0.8
keep = 1
validate_every = 50
precision = "fp32"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    (tmp_path / "config.toml").write_text(CONFIG)
    lines = [
        {"id": "a", "audio": "a.wav", "text": "three four five six one two", "duration": 1.0},
        {"id": "b", "audio": "b.wav", "text": "one two three", "duration": 1.0},
    ]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def task_of(folder, **data):
    table = {"task": "language", "data": {"train": ["text.txt"], "dev": "dev.jsonl", **data}}
    table |= {"batches": {"size": 48.0}}
    config = config_from_table(table)
    assert isinstance(config, LanguageConfig)
    return LanguageTask(config, folder, folder)


def test_the_most_frequent_words_come_first(folder):
    (folder / "text.txt").write_text("b a c b a b " * 40)
    task = task_of(folder, words=2, window=6)
    assert task.vocabulary.inventory == (*SPECIALS, "b", "a")
    assert task.vocabulary.decode(task.stream[:6].tolist()) == "b a <unk> b a b"


def test_windows_hold_the_text_in_its_order(folder):
    task = task_of(folder, window=6)
    running = " ".join(LINES).split()
    batch = task.make(0, 0, task.plan(0)[0])
    assert batch.words.shape == batch.targets.shape == (8, 6)
    assert (batch.words[:, 0] == EOS).all()
    torch.testing.assert_close(batch.words[:, 1:], batch.targets[:, :-1])
    found = {task.vocabulary.decode(row.tolist()) for row in batch.targets}
    windows = {" ".join(running[at : at + 6]) for at in range(len(running) - 5)}
    assert found <= windows
    seen = np.sort(np.concatenate(task.plan(0)))
    assert len(set(seen.tolist())) == len(seen) > 70  # each window once
    assert task.plan(0) == task.plan(0) != task.plan(1)
    later = [task.make(epoch, 0, [0]).targets.tolist() for epoch in range(1, 9)]
    assert len({tuple(row[0]) for row in later}) > 1  # cut at other positions


def test_perplexity_is_of_the_words_alone(folder):
    task = task_of(folder, window=6)
    for each in task.model.parameters():
        torch.nn.init.zeros_(each)
    # All words are equally probable, and padding, which is no word, is far more probable.
    task.model.first.bias.data[BLANK] = 4.0
    found = task.validate(0, folder)
    assert found.figure == pytest.approx(len(task.vocabulary) - 1 + math.exp(4.0), rel=1e-5)
    assert found.metrics["perplexity"] == found.figure


def test_a_run_learns_and_its_model_can_be_read(folder):
    made = run(folder / "config.toml", folder / "run", folder)
    lines = map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())
    found = [line["perplexity"] for line in lines if line["kind"] == "dev"]
    # Each word except the first of a text is determined by the previous one.
    assert 1.4 < found[-1] < 2.5 < found[0]
    read = read_folder(made, "language")
    assert read.model["cutoffs"] == [5]
    more = [f"training.start_from={made}", "training.steps=50", "training.rate=1e-3"]
    again = run(folder / "config.toml", folder / "next", folder, more)
    lines = (folder / "next" / "metrics.jsonl").read_text().splitlines()
    before, first = map(json.loads, lines[:2])
    assert before["step"] == 0 and before["perplexity"] == pytest.approx(found[-1])
    assert first["loss"] < 1.5 and again.is_dir()


def test_a_model_that_is_trained_on_keeps_its_vocabulary(folder):
    made = run(folder / "config.toml", folder / "run", folder, ["training.steps=1"])
    text = (folder / "text.txt").read_text()
    (folder / "text.txt").write_text(text + "zebra zebra zebra\n" * 50)
    config = load_config(folder / "config.toml", [f"training.start_from={made}"])
    task = LanguageTask(config, folder, folder)
    known = read_folder(made, "language").vocabularies["words"]
    assert task.vocabulary.to_json() == known
    assert task.vocabulary.encode("zebra") == [UNK] and UNK in task.stream
    task.begin()
    weights = load_file(made / "model.safetensors")
    assert torch.equal(task.model.state_dict()["embedding.weight"], weights["embedding.weight"])


def test_a_larger_vocabulary_adds_words_to_the_model_that_is_trained_on(folder):
    made = run(folder / "config.toml", folder / "run", folder, ["training.steps=20"])
    (folder / "text.txt").write_text("\n".join(LINES) + "\nzebra zebra zebra\nmouse" * 50)
    config = load_config(folder / "config.toml", [f"training.start_from={made}", "data.words=7"])
    task = LanguageTask(config, folder, folder)
    known = Vocabulary.from_json(read_folder(made, "language").vocabularies["words"]).inventory
    new = set(task.vocabulary.inventory[len(known) :])
    assert task.vocabulary.inventory[: len(known)] == known and len(new) == 2
    assert new < {"one", "two", "three", "four", "five", "six", "zebra", "mouse"}
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    task.begin()
    weights = load_file(made / "model.safetensors")
    for name, value in task.model.state_dict().items():
        rows = len(weights[name])
        torch.testing.assert_close(value[:rows], weights[name])
        assert len(value) == rows or torch.equal(value[rows:], before[name][rows:])
    assert len(task.model.embedding.weight) == len(weights["embedding.weight"]) + 2
    assert math.isfinite(task.validate(0, folder).figure)


def test_a_start_of_another_size_is_refused(folder):
    made = run(folder / "config.toml", folder / "run", folder, ["training.steps=1"])
    for change in ("model.state_size=8", "model.cutoffs=[3, 5]"):
        config = load_config(folder / "config.toml", [f"training.start_from={made}", change])
        with pytest.raises(UserError, match="does not fit the config"):
            LanguageTask(config, folder, folder).begin()


def test_too_little_text_is_refused(folder):
    (folder / "text.txt").write_text("one two three")
    with pytest.raises(UserError, match="3 words of text"):
        task_of(folder)
    (folder / "text.txt").write_text("\n")
    with pytest.raises(UserError, match="no text to train on"):
        task_of(folder)


def test_a_perplexity_beyond_a_float_is_infinite(folder, monkeypatch):
    task = task_of(folder, window=6)
    monkeypatch.setattr(task.model, "forward", lambda words, targets: 1e4 * torch.ones(words.shape))
    assert task.validate(1, folder).figure == math.inf
