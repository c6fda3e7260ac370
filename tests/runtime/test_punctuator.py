"""The model of punctuation and case: NumPy equals torch, windows, and what a folder may hold."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_punctuator import SETTINGS, make_punctuation_model, write_tiny_punctuator

from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.models.folder import WEIGHTS
from asr.models.punctuation import Rows
from asr.runtime import punctuator as runtime
from asr.runtime.punctuator import Punctuator
from asr.text.hashed import WHOLE, rows_of

WORDS = ["yes", "i", "met", "mister", "brown", "of", "the", "bbc", "and", "then", "we", "left"]


def rows(words: list[str]) -> Rows:
    found = [rows_of(word, SETTINGS.buckets) for word in words]
    grams = [each[WHOLE:] for each in found]
    starts = torch.tensor([0, *map(len, grams[:-1])]).cumsum(0)
    whole = torch.tensor([each[:WHOLE] for each in found])
    return Rows(whole, torch.tensor([row for each in grams for row in each]), starts)


@torch.no_grad()
def test_numpy_equals_torch(tmp_path: Path) -> None:
    model, network = (
        make_punctuation_model(),
        Punctuator.load(write_tiny_punctuator(tmp_path / "one")).network,
    )
    vectors = model.vectors(rows(WORDS))
    np.testing.assert_allclose(network.vectors(WORDS), vectors.numpy(), atol=1e-5)
    wanted = [logits[0].argmax(1).tolist() for logits in model(vectors[None], [len(WORDS)])]
    found = network.classes(WORDS).tolist()
    assert found == wanted
    assert len(set(found[0])) > 1 and len(set(found[1])) > 1


@torch.no_grad()
def test_a_text_is_read_as_alone_in_a_padded_batch() -> None:
    model = make_punctuation_model()
    vectors = model.vectors(rows(WORDS))
    batch = torch.zeros(2, len(WORDS), SETTINGS.embedding_size)
    batch[0], batch[1, :4] = vectors, vectors[:4]
    together = model(batch, [len(WORDS), 4])
    alone = model(vectors[None, :4], [4])
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one[1:, :4], other)


@torch.no_grad()
def test_a_hidden_word_is_read_by_its_spelling_alone() -> None:
    model = make_punctuation_model()
    kept = torch.tensor([1.0, 0.0])
    hidden = model.vectors(rows(WORDS[:2]), kept)
    plain = model.vectors(rows(WORDS[:2]))
    whole = model.table(rows(WORDS[:2]).whole).sum(1)
    torch.testing.assert_close(hidden[0], plain[0])
    torch.testing.assert_close(hidden[1], plain[1] - whole[1])


def test_every_word_of_a_long_text_is_written_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    punctuator = Punctuator.load(write_tiny_punctuator(tmp_path / "one"))
    whole = punctuator(WORDS)
    monkeypatch.setattr(runtime, "WINDOW", 3)
    monkeypatch.setattr(runtime, "CONTEXT", len(WORDS))
    assert punctuator(WORDS) == whole  # all context: as at once
    monkeypatch.setattr(runtime, "CONTEXT", 1)
    found = punctuator(WORDS)
    bare = [each.rstrip(",.?").lower() for each in found]
    assert [{"mr": "mister"}.get(each, each) for each in bare] == WORDS
    assert punctuator([]) == []


def test_parts_are_written_as_soon_as_the_words_after_them_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    punctuator = Punctuator.load(write_tiny_punctuator(tmp_path / "one"))
    parts = [WORDS[:3], [], WORDS[3:4], WORDS[4:9], WORDS[9:]]
    text = punctuator.begin()
    assert [each for part in parts for each in text.add(part)] == []  # short: nothing is known yet
    together = text.finish()
    assert [word for part in together for word in part] == punctuator(WORDS)
    monkeypatch.setattr(runtime, "WINDOW", 3)
    monkeypatch.setattr(runtime, "CONTEXT", 2)
    text, found, seen = punctuator.begin(), [], []
    for part in parts:
        found += text.add(part)
        seen.append(len(found))
    assert seen == [0, 0, 0, 3, 4]
    found += text.finish()
    assert [len(part) for part in found] == [len(part) for part in parts]
    bare = [word.rstrip(",.?").lower() for part in found for word in part]
    assert [{"mr": "mister"}.get(each, each) for each in bare] == WORDS


def test_a_part_begins_a_sentence_only_after_its_end(tmp_path: Path, monkeypatch) -> None:
    punctuator = Punctuator.load(write_tiny_punctuator(tmp_path / "one"))
    marks = {"met": 2}  # a full stop

    def classes(self, words):
        return np.array([[marks.get(word, 0) for word in words], [0] * len(words)])

    monkeypatch.setattr(runtime.PunctuationNetwork, "classes", classes)
    monkeypatch.setattr(runtime, "WINDOW", 1)
    monkeypatch.setattr(runtime, "CONTEXT", 1)
    text = punctuator.begin()
    parts = (["yes"], ["we", "met"], ["brown"], ["left"])
    found = [each for part in parts for each in text.add(part)]
    assert [*found, *text.finish()] == [["Yes"], ["we", "met."], ["Brown"], ["left"]]


def test_it_may_be_stored_in_8_bits(tmp_path: Path) -> None:
    exact = Punctuator.load(write_tiny_punctuator(tmp_path / "exact")).network
    small = Punctuator.load(write_tiny_punctuator(tmp_path / "small", bits=8)).network
    np.testing.assert_allclose(small.table, exact.table, atol=0.02)


def test_a_folder_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.*not a model folder"):
        Punctuator.load(tmp_path / "nowhere")
    folder = write_tiny_punctuator(tmp_path / "other")
    (folder / "checksums.json").unlink()
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["model"]["state_size"] = 7
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    renew_checksum(folder / "config.json")
    with pytest.raises(UserError, match=WEIGHTS):
        Punctuator.load(folder)
    config["task"] = "speech"
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    renew_checksum(folder / "config.json")
    with pytest.raises(UserError, match="a model for speech"):
        Punctuator.load(folder)
