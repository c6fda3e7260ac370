"""`recipes/cmn_eng/prepare.py`: what is held out stays unseen, also in the additional English."""

import runpy
import sys
from pathlib import Path

import pytest

from asr.corpora.pairs import read_pairs, read_sentences, sentence_key

pytest.importorskip("opencc")
PREPARE = runpy.run_path(
    str(Path(__file__).parents[1] / "recipes" / "cmn_eng" / "prepare.py"), run_name="prepare"
)


def test_held_out_sentences_are_in_no_training_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(600)
    chinese, french = tmp_path / "cmn.txt", tmp_path / "fra.txt"
    chinese.write_text("".join(f"I saw {n}.\t我看見{n}。\tby\n" for n in numbers), "utf-8")
    others = ["Saw {}, I.", "I saw {}!", "{} knew."]
    french.write_text("".join(f"{o.format(n)}\tx\n" for n in numbers for o in others), "utf-8")
    folder = tmp_path / "pairs"
    arguments = ["--data", str(chinese), str(folder), "--english", str(french)]
    monkeypatch.setattr(sys, "argv", ["prepare.py", *arguments])
    PREPARE["main"]()
    parts = {
        name: {sentence_key(pair.source) for pair in read_pairs(folder / f"eng-cmn.{name}.tsv")}
        for name in ("train", "dev", "test")
    }
    assert all(parts.values()) and sum(map(len, parts.values())) == len(numbers)
    # Of the others, "I saw" is known, "knew" is no word of the pairs, and unseen numbers neither.
    trained = [key.split()[-1] for key in parts["train"]]
    added = {sentence_key(text) for text in read_sentences(folder / "english.txt")}
    assert added == {f"saw {number} i" for number in trained}
    backward = read_pairs(folder / "cmn-eng.train.tsv")
    assert len(backward) == 2 * len(trained)
    assert {pair.source[:3] for pair in backward} == {"我看见", "我看見"}
