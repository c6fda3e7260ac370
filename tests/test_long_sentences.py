"""The recipe of long sentences: grammar, disjoint files, and the command that makes the table."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from asr.corpora.pairs import read_pairs

RECIPE = Path(__file__).parents[1] / "recipes" / "long_sentences"


def load(name: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RECIPE))
        sys.modules.pop("sentences", None)
        return importlib.import_module(name)


sentences = load("sentences")


def test_a_sentence_is_its_clauses_word_by_word_in_another_order() -> None:
    source, target = sentences.sentence(3, np.random.default_rng(1))
    words, moved = source.split(), target.split()
    assert len(words) == len(moved) == 6 * 3 - 1
    lexicon = {k: v for each in (*sentences.ORDER, sentences.JOINED) for k, v in each.items()}
    for start in (0, 6, 12):
        clause = words[start : start + 5]
        assert moved[start : start + 5] == [lexicon[clause[i]] for i in (4, 3, 0, 2, 1)]
        if start:
            assert moved[start - 1] == lexicon[words[start - 1]]


def test_files_follow_from_the_seed_and_share_no_sentence(tmp_path: Path) -> None:
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        sentences.prepare(tmp_path / folder, train=50, test=20, seed=seed)
    names = ("train.tsv", "dev.tsv", "test.tsv")
    texts = {f: [(tmp_path / f / n).read_text("utf-8") for n in names] for f in "abc"}
    assert texts["a"] == texts["b"] != texts["c"]
    read = [[pair.source for pair in read_pairs(tmp_path / "a" / name)] for name in names]
    assert [len(each) for each in read] == [50, sentences.DEV, 20]
    assert len({source for each in read for source in each}) == 70 + sentences.DEV
    sizes = [len(source.split()) for source in read[0]]
    assert sorted(set(sizes)) == list(range(5, 60, 6)) and sizes.count(5) == sizes.count(59)


def test_one_command_to_table_and_picture_and_nothing_is_trained_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sacrebleu")
    compare = load("compare")
    small = ["training.steps=2", "training.validate_every=2", "model.encoder.state_size=8"]
    asked = [tmp_path, "--seeds", 1, 2, "--train", 60, "--test", 10]
    asked += [word for each in small for word in ("--set", each)]
    monkeypatch.setattr(sys, "argv", ["compare.py", *map(str, asked)])
    compare.main()
    written = (tmp_path / "lengths.md").read_text("utf-8")
    assert written in capsys.readouterr().out
    assert "| additive" in written and "| fixed context" in written and "over 47" in written
    assert "CPU-seconds of training" in written and (tmp_path / "lengths.png").stat().st_size > 1000
    assert {each.name for each in tmp_path.glob("*-?")} == {
        "additive-1", "additive-2", "fixed-1", "fixed-2",
    }  # fmt: skip
    monkeypatch.setattr(compare, "train", None)
    compare.main()
    assert (tmp_path / "lengths.md").read_text("utf-8") == written
