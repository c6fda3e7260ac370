"""Text without recordings: pieces of it, and what a decoder learns from them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tones import write_tones

from asr.errors import UserError
from asr.runtime.torch_engine import TorchEngine
from asr.text.vocabulary import EOS, Vocabulary
from asr.training.config import load_config
from asr.training.run import run
from asr.training.tasks.speech import SpeechTask
from asr.training.tasks.texts import TextStream

CONFIG = Path(__file__).parents[2] / "recipes" / "tones" / "tones.toml"
VOCABULARY = Vocabulary.characters()
LINES = ["The quick brown fox", "", "jumps over 2 lazy dogs."]
JOINED = "the quick brown fox jumps over two lazy dogs "


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    folder = write_tones(tmp_path_factory.mktemp("tones"), utterances=12)
    (folder / "text.txt").write_text("\n".join(LINES))
    return folder


def stream(tones, length):
    return TextStream([tones / "text.txt"], VOCABULARY, length)


def pieces(tones, length, count, seed=1):
    ids = stream(tones, length).cut(count, np.random.default_rng(seed))
    assert ids.shape == (count, length)
    return [VOCABULARY.decode(piece) for piece in ids]


# Pieces


def test_pieces_are_of_the_normalised_text_from_the_start_of_a_word(tones):
    assert len(stream(tones, 8)) == len(JOINED)
    found = set(pieces(tones, 8, 200))
    assert found == {(JOINED * 2)[at + 1 :][:8] for at, each in enumerate(JOINED) if each == " "}


def test_a_piece_may_be_all_of_the_text(tones):
    assert "lazy dogs the quick brown fox jumps over two " in pieces(tones, len(JOINED), 50)


def test_pieces_depend_on_the_generator_alone(tones):
    assert pieces(tones, 10, 20) == pieces(tones, 10, 20)
    assert pieces(tones, 10, 20) != pieces(tones, 10, 20, seed=2)


def test_several_files_are_one_text(tones, tmp_path):
    (tmp_path / "more.txt").write_text("zebras")
    texts = TextStream([tones / "text.txt", tmp_path / "more.txt"], VOCABULARY, 3)
    assert len(texts) == len(JOINED) + len("zebras ")
    found = {VOCABULARY.decode(each) for each in texts.cut(300, np.random.default_rng(0))}
    assert {"zeb", "the", "dog"} <= found


def test_a_word_longer_than_a_piece_is_cut_anywhere(tmp_path):
    (tmp_path / "long.txt").write_text("abcdefghij")
    texts = TextStream([tmp_path / "long.txt"], VOCABULARY, 3)
    found = {VOCABULARY.decode(each) for each in texts.cut(200, np.random.default_rng(0))}
    assert {"bcd", "efg"} <= found


def test_too_little_text_is_refused(tones):
    with pytest.raises(UserError, match=r"text\.txt: less than one piece of 46 characters"):
        stream(tones, len(JOINED) + 1)


# Training


def task_of(tones, *overrides):
    settings = ['text.files=["text.txt"]', "text.pieces=3", "text.length=12", *overrides]
    return SpeechTask(load_config(CONFIG, settings), tones, CONFIG.parent)


def test_the_pieces_of_a_batch_do_not_depend_on_who_makes_it(tones):
    task = task_of(tones)
    whole = task.make(2, 1, [0, 1, 2, 3]).texts
    parts = [task.make(2, 1, [0, 1, 2, 3], slice(at, at + 2)).texts for at in (0, 2)]
    assert whole.shape == (4, 3, 12)
    assert torch.equal(whole, torch.cat(parts))
    assert not torch.equal(whole, task.make(3, 1, [0, 1, 2, 3]).texts)


def test_the_loss_is_that_of_the_internal_model_which_the_search_subtracts(tones):
    task = task_of(tones)
    task.data.fit_normalizer(task.model)
    batch = task.make(0, 0, [0, 1])
    model = task.model.eval()
    term = next(each for each in task.loss(batch, 0).terms if "text" in each.parts)
    assert float(term.size) == batch.texts.numel()

    memory = model.encode(batch.waveforms).memory
    decoder = TorchEngine(model).decoder_without_audio(memory)
    costs = []
    for piece in range(batch.texts.size(1)):
        tokens = batch.texts[:, piece].numpy()
        state, previous = decoder.start(), np.full((2, 1), EOS)
        for at in range(tokens.shape[1]):
            found = decoder.step(previous, state)
            previous, state = tokens[:, at : at + 1], found.state
            costs.append(-np.take_along_axis(found.log_probs[:, 0], previous, 1))
    assert float(term.parts["text"].detach()) == pytest.approx(np.mean(costs), rel=1e-5)
    assert float(term.value.detach()) == pytest.approx(0.3 * np.mean(costs), rel=1e-5)


def test_text_changes_the_decoder_alone(tones):
    task = task_of(tones)
    task.data.fit_normalizer(task.model)
    term = next(
        each for each in task.loss(task.make(0, 0, [0, 1]), 0).terms if "text" in each.parts
    )
    term.value.backward()
    changed = {
        name.partition(".")[0]
        for name, each in task.model.named_parameters()
        if each.grad is not None and each.grad.abs().max()
    }
    assert changed == {"decoder"}


def test_a_decoder_learns_text_that_no_recording_has(tones, tmp_path):
    overrides = ['text.files=["text.txt", "text.txt"]', "text.length=20", "text.factor=1.0"]
    settings = ["training.steps=40", "training.log_every=20", "training.validate_every=40"]
    run(CONFIG, tmp_path / "run", tones, [*overrides, *settings])
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    first, last = (each["text"] for each in map(json.loads, lines) if each["kind"] == "train")
    assert last < 0.8 * first
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "- Text without recordings, for the decoder: `text.txt`.\n" in card


def test_settings_of_a_text_that_is_missing_are_refused(tones):
    with pytest.raises(UserError, match=r"text\.pieces.*without text"):
        load_config(CONFIG, ["text.pieces=2"])
