"""The recipe of punctuation and case: what is read, drawn and held out, and a short training."""

import gzip
import importlib
import json
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from asr.errors import UserError
from asr.runtime.punctuator import Punctuator
from asr.text.written import Case, Mark, read_written

RECIPE = Path(__file__).parents[1] / "recipes" / "written"
CONFIG = """
seed = 1
steps = 150
words = 200
rate = 0.02
warmup = 5
weight_decay = 0.0
average = 0.8
hidden_words = 0.1
most_words = 400

[model]
buckets = 300
embedding_size = 8
state_size = 8
layers = 1
dropout = 0.0

[[sources]]
files = "books/*.txt"
share = 0.5
held_out = ["out.txt"]

[[sources]]
files = "pairs.gz"
share = 0.5
"""


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts of a recipe import each other, as if they were run; other recipes' names differ."""
    monkeypatch.syspath_prepend(RECIPE)
    for name in ("texts", "train", "evaluate"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def script(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    books = tmp_path / "books"
    books.mkdir()
    sentences = [f"Mr. Brown came, and {each} left. Did Ann see it?" for each in ("he", "she")]
    for name in ("one.txt", "out.txt"):
        (books / name).write_text("A HEADING\n" + "\n".join(sentences * 60), "utf-8")
    pairs = [f"Paris has {each} towers.\tX" for each in ("two", "ten", "six")] * 50
    (tmp_path / "pairs.gz").write_bytes(gzip.compress("\n".join(pairs).encode()))
    (tmp_path / "config.toml").write_text(CONFIG, "utf-8")
    return tmp_path


def test_sources_are_read_by_their_kind(data: Path) -> None:
    read = script("texts").read_source
    book = read(data / "books" / "one.txt", most=25)
    assert book.runs and sum(map(len, book.sentences)) <= 25
    assert [each.word for each in book.sentences[0]] == [
        "mister",
        "brown",
        "came",
        "and",
        "he",
        "left",
    ]
    pairs = read(data / "pairs.gz")
    assert not pairs.runs and len(pairs.sentences) == 3  # each of them once
    articles = data / "wiki_00"
    articles.write_text(
        '<doc id="1" title="A">\nA title.\n\nThe ship (; ) left. It had 12 men.\nSee also\n</doc>',
        "utf-8",
    )
    found = [" ".join(each.word for each in one) for one in read(articles).sentences]
    assert found == ["the ship left", "it had twelve men"]
    assert not read(articles).sentences[0][1].mark
    with pytest.raises(UserError, match="wanted"):
        read(data / "config.toml")


def test_what_is_held_out_is_nowhere_in_training(data: Path, tmp_path: Path) -> None:
    train, texts = script("train"), script("texts")
    test = tmp_path / "test.jsonl"
    test.write_text(json.dumps({"text": "Paris has ten towers!"}) + "\n", "utf-8")
    config, words = train.read_config(data / "config.toml"), train.Words()
    found = train.read_texts(config, data, [test], words)
    names = list(words.ids)
    sentences = {
        " ".join(names[word] for word in text.words[start:stop])
        for source in found
        for text in source
        for start, stop in zip(text.starts, text.starts[1:], strict=False)
    }
    assert "paris has two towers" in sentences and "paris has ten towers" not in sentences
    source = texts.read_source(data / "books" / "one.txt")
    parts = train.trained_part(source), train.held_out_part(source)
    assert len(parts[0]) + len(parts[1]) == len(source.sentences)
    with pytest.raises(UserError, match="no such file"):
        train.read_texts(config, tmp_path / "nowhere", [], train.Words())


def test_spans_are_stretches_and_mask_the_capitals_of_sentences() -> None:
    train = script("train")
    words = train.Words()
    sentences = [read_written(each) for each in ("Ann and Bob left.", "We saw it.", "So did Eve.")]
    text = words.arrays(sentences * 40, True)
    drawn = list(islice(train.spans([[text]], [1.0], seed=3), 300))
    again = list(islice(train.spans([[text]], [1.0], seed=3), 300))
    whole = " ".join(map(str, text.words))
    lengths = set()
    for span, other in zip(drawn, again, strict=True):
        np.testing.assert_array_equal(span.words, other.words)
        assert " ".join(map(str, span.words)) in whole
        lengths.add(len(span.words))
        for at, case in enumerate(span.cases):
            begins = at == 0 or span.marks[at - 1] in (Mark.STOP, Mark.QUESTION)
            assert not (begins and case == Case.CAPITAL)
    assert len(lengths) > 20 and max(lengths) <= 2 * train.MOST
    names = list(words.ids)
    known = {
        names[w]: c
        for span in drawn
        for w, c in zip(span.words, span.cases, strict=True)
        if c != train.IGNORED
    }
    assert known["bob"] == Case.CAPITAL and known["and"] == Case.LOWER


def test_batches_hold_every_span_within_their_size() -> None:
    train = script("train")
    text = train.Words().arrays([read_written("Ann and Bob left.")] * 90, True)
    drawn = train.spans([[text]], [1.0], seed=3)
    for batch in islice(train.batches(drawn, 300), 40):
        longest = max(len(span.words) for span in batch)
        assert batch and (len(batch) == 1 or len(batch) * longest <= 300)


def test_training_learns_and_makes_the_same_weights_again(data: Path, monkeypatch, capsys) -> None:
    arguments = ["train.py", data / "config.toml", data / "model", "--data", data]
    for name in ("model", "again"):
        arguments[2] = data / name
        monkeypatch.setattr(sys, "argv", [str(each) for each in arguments])
        script("train").main()
    weights = [(data / name / "model.safetensors").read_bytes() for name in ("model", "again")]
    assert weights[0] == weights[1]
    words = [each.word for each in read_written("Did Ann see it? Mr. Brown came, and he left.")]
    spelt = Punctuator.load(data / "model")(words)
    assert spelt[:6] == ["Did", "Ann", "see", "it?", "Mr.", "Brown"]
    evaluate = script("evaluate")
    book = data / "books" / "out.txt"
    ((name, words, comma, stop, question, case, capitals, _),) = evaluate.of_texts(
        data / "model", [book], [book.name], 500
    )
    assert name == "out.txt" and 400 < words <= 500
    assert min(stop, question, case, capitals) > 60 and comma > 0


def test_marks_are_compared_at_aligned_words_and_case_at_equal_ones() -> None:
    evaluate = script("evaluate")
    wanted = read_written("Yes, Ann left. Did Bob?")
    same = evaluate.Pair(wanted, wanted)
    assert evaluate.measures([same]) == [5, 100, 100, 100, 100, 100]
    other = evaluate.Pair(wanted, read_written("Yes, an left did Bob."))
    words, comma, stop, question, case, capitals = evaluate.measures([other])
    assert (words, comma, question) == (5, 100, 0)
    assert stop == pytest.approx(0)  # one missed, one too many
    assert case == pytest.approx(75) and capitals == pytest.approx(80)  # of yes, left, did, Bob
    nothing = evaluate.Pair(wanted, [])
    assert evaluate.measures([nothing])[1] == 0
