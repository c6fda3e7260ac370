"""Several processes train as one: sums, shares, signals, bad steps, another number of processes."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tones import write_tones

from asr.errors import UserError
from asr.training import distributed, loop
from asr.training.config import config_from_table, load_config
from asr.training.contract import Losses, Term, Validation
from asr.training.state import read_checkpoint
from asr.training.tasks.language import LanguageTask
from asr.training.tasks.speech import SpeechTask
from asr.training.tasks.translation import TranslationTask

TONES = Path(__file__).parents[2] / "recipes" / "tones" / "tones.toml"
SPEECH = [
    "model.encoder.state_size=8",
    "model.decoder.state_size=12",
    "batches.size=4",  # some batches hold one utterance
    "batches.sorted_epochs=0",
    "augment.speeds=[0.9, 1.1]",  # the same audio, however many processes share a batch
    "augment.tract_lengths=[0.9, 1.1]",
    "augment.time_masks=2",
    "augment.time_share=0.5",
    "augment.frequency_masks=2",
    "augment.feature_noise=0.1",
    "loss.entropy=0.1",
    "loss.coverage=0.1",
]
TEXTS = {
    "data": {"train": "train.tsv", "dev": "dev.tsv", "subwords": 0},
    "model": {
        "encoder": {"embedding_size": 8, "state_size": 8, "dropout": 0.0},
        "attention": {"size": 8},
        "decoder": {"embedding_size": 8, "state_size": 8, "readout_size": 8, "dropout": 0.0},
    },
    "batches": {"size": 30.0},
    "loss": {"consistency": 0.5, "label_smoothing": 0.1},
}
WORDS = {
    "data": {"train": ["train.tsv"], "dev": "dev.jsonl", "words": 9, "window": 4},
    "model": {
        "embedding_size": 8,
        "state_size": 8,
        "vector_size": 8,
        "cutoffs": [9],
        "dropout": 0.0,
    },
    "batches": {"size": 12.0},
}
TRAINING = {"rate": 5e-3, "warmup_steps": 2, "decay_share": 0.0, "log_every": 1, "device": "cpu"}
TRAINING |= {"precision": "fp32", "validate_every": 2, "average": 0.9}
TASKS = ("speech", "translation", "language")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_tones(tmp_path_factory.mktemp("shared"), utterances=40)
    words = [f"word{index}" for index in range(9)]
    pairs = [(words[: 1 + at % 9], words[at % 7 :]) for at in range(40)]
    lines = [f"{' '.join(source)}\t{' '.join(target)}\n" for source, target in pairs]
    (folder / "train.tsv").write_text("".join(lines))
    (folder / "dev.tsv").write_text("word1\tword2\n")
    return folder


def in_64_bits(config):
    """Return a config without autocast, which a processor may have and another may not."""
    return replace(config, training=replace(config.training, precision="fp32"))


def make(name, data):
    """Return a task in 64 bits, without validation; several batches make a step."""
    if name == "speech":
        config = in_64_bits(load_config(TONES, SPEECH))
        task = SpeechTask(config, data, data)
    elif name == "translation":
        config = in_64_bits(config_from_table({"task": name, **TEXTS}))
        task = TranslationTask(config, data, data)
    else:
        config = in_64_bits(config_from_table({"task": name, **WORDS}))
        task = LanguageTask(config, data, data)
    task.model.double()
    task.validate = lambda step, folder: Validation(1.0, {}, "")
    task.save = lambda folder: folder.mkdir(parents=True)
    return task


def train(name, data, folder, steps, broken=None, most=None):
    """Train in this process, which others may share; keep the weights of each.

    most: number of sequences for which memory suffices; None for any.
    """
    folder.mkdir(parents=True, exist_ok=True)
    task = make(name, data)
    if name == "speech":
        begin = task.begin

        def begin_in_double():
            begin()
            task.model.double()

        task.begin = begin_in_double
    if broken is not None:
        loss = task.loss

        def sometimes(batch, step):
            found = loss(batch, step)
            if step != 1 or distributed.rank() != broken:
                return found
            first, *rest = found.terms
            return Losses([first._replace(value=first.value * math.nan), *rest], found.amount)

        task.loss = sometimes
    if most is not None:
        task.loss = within_memory(task.loss, most)
    settings = replace(task.config.training, **TRAINING, accumulate=2, steps=steps)
    checkpoint, _ = read_checkpoint(folder / "checkpoints")
    loop.train(task, settings, folder, 1, checkpoint)
    torch.save(task.model.state_dict(), folder / f"rank-{distributed.rank()}.pt")


def within_memory(loss, most):
    """Return a loss that fails in the backward pass with more sequences than `most`."""

    def limited(batch, step):
        found = loss(batch, step)
        first, *rest = found.terms
        leaf = next(each for each in batch if isinstance(each, torch.Tensor) and each.dim() > 1)
        if len(leaf) > most and torch.is_grad_enabled():
            first.value.register_hook(lambda _: no_memory(len(leaf)))
        return Losses([first, *rest], found.amount)

    return limited


def no_memory(size):
    raise torch.OutOfMemoryError(f"no memory for {size}\nwith details")


def train_all(data, folder, steps):
    """Train each task, and one with a bad step; return the rank of this process."""
    for name in TASKS:
        train(name, data, folder / name, steps)
    train("translation", data, folder / "broken", steps, broken=1)
    if distributed.world_size() > 1:
        with pytest.raises(UserError, match="have different checkpoints"):
            distributed.begin_alike(torch.nn.Linear(1, 1), 3 + distributed.rank())
    return distributed.rank()


def weights(folder, rank=0):
    return torch.load(folder / f"rank-{rank}.pt")


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def require_equal_logs(found, wanted):
    one, two = records(wanted), records(found)
    assert [each["step"] for each in one] == [each["step"] for each in two] == [1, 2, 2, 3, 4, 4]
    timed = {"training_seconds"} | {key for key in one[0] if key.endswith("_per_second")}
    for mine, its in zip(one, two, strict=True):
        assert mine.keys() == its.keys()
        for key in mine.keys() - timed:
            is_text = isinstance(its[key], str)
            wanted = its[key] if is_text else pytest.approx(its[key], rel=1e-6)
            assert mine[key] == wanted, key


@pytest.fixture(scope="module")
def both(data, tmp_path_factory):
    """Train with one process and with two; go on with one where two have stopped."""
    folder = tmp_path_factory.mktemp("runs")
    train_all(data, folder / "one", 4)
    assert distributed.run_in_processes(2, train_all, data, folder / "two", 2) == 0
    half = {name: [weights(folder / "two" / name, rank) for rank in (0, 1)] for name in TASKS}
    half["broken"] = [weights(folder / "two" / "broken", rank) for rank in (0, 1)]
    for name in TASKS:
        train(name, data, folder / "two" / name, 4)
    return folder, half


@pytest.mark.parametrize("name", TASKS)
def test_two_processes_and_then_one_train_as_one(both, name):
    folder, half = both
    one, two = weights(folder / "one" / name), weights(folder / "two" / name)
    assert any(not torch.equal(one[key], half[name][0][key]) for key in one)  # it goes on learning
    for key in one:
        torch.testing.assert_close(one[key], two[key], rtol=0, atol=1e-10, msg=key)
    assert all(torch.equal(value, half[name][1][key]) for key, value in half[name][0].items())


@pytest.mark.parametrize("name", TASKS)
def test_batches_that_do_not_fit_into_memory_give_the_same_in_pieces(
    both, name, data, tmp_path, capsys
):
    folder, _ = both
    train(name, data, tmp_path, 4, most=1)
    assert "a batch does not fit into memory; again in 2 pieces" in capsys.readouterr().err
    whole, pieces = weights(folder / "one" / name), weights(tmp_path)
    for key in whole:
        torch.testing.assert_close(pieces[key], whole[key], rtol=0, atol=1e-10, msg=key)
    require_equal_logs(tmp_path, folder / "one" / name)


def test_a_single_example_that_does_not_fit_is_one_line(data, tmp_path):
    with pytest.raises(
        UserError, match=r"step 0: a batch of \d+ does not fit .*lower batches.size"
    ):
        train("speech", data, tmp_path, 4, most=0)


@pytest.mark.parametrize("name", TASKS)
def test_what_is_logged_is_that_of_one_process(both, name):
    folder, _ = both
    require_equal_logs(folder / "two" / name, folder / "one" / name)


def test_a_step_that_is_not_finite_in_one_process_is_skipped_in_all(both):
    folder, half = both
    first, second = half["broken"]
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert all(each.isfinite().all() for each in first.values())
    assert records(folder / "two" / "broken")[1]["skipped_steps"] == 1
    assert records(folder / "one" / "broken")[1]["skipped_steps"] == 0  # it has no second process
    assert any(not torch.equal(first[key], half["translation"][0][key]) for key in first)


def test_the_shares_of_a_batch_are_its_parts(monkeypatch):
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    for size in range(1, 8):
        found = []
        for rank in range(3):
            monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
            part, counts = distributed.share_of(size)
            assert range(size)[part]  # each process computes something
            found += [*range(size)[part]] if counts else []
        assert sorted(found) == [*range(size)]


def test_masks_and_noise_of_a_share_are_those_of_the_whole_batch(data):
    task = SpeechTask(load_config(TONES, SPEECH), data, data)
    indices, frames = [*range(6)], torch.tensor([50, 41, 50, 30, 47, 33])
    features = torch.randn(6, 50, 80)
    whole = task.make(0, 0, indices)
    changed = task._change_features(features, frames, whole.seeds)
    for part in (slice(0, None, 2), slice(1, None, 2)):
        share, longest = task.make(0, 0, indices, part), int(frames[part].max())
        own = task._change_features(features[part, :longest], frames[part], share.seeds)
        assert torch.equal(own, changed[part, :longest])
    assert not torch.equal(changed[0], changed[2])
    other = task._change_features(features, frames, task.make(0, 1, indices).seeds)
    assert not torch.equal(changed, other)


def test_weighted_losses_keep_their_parts():
    one = torch.tensor(1.0)
    losses = Losses([Term(2 * one, {"a": one}, 3), Term(4 * one, {"b": one}, 5)], 7.0)
    assert losses.total == 6 and losses.parts == {"a": 1, "b": 1, "loss": 6}
    halved = losses.weighted([0.5, 0.25])
    assert halved.total == 2 and halved.parts == {"a": 0.5, "b": 0.25, "loss": 2}
