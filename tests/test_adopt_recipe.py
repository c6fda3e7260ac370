"""`recipes/cmn_eng/adopt.py`: what a Chinese translator takes from its parent."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

from asr.inference.translator import Translator
from asr.model_folder import PRETRAINED
from asr.models.folder import WEIGHTS, read_weights
from asr.text.vocabulary import Vocabulary

ADOPT = runpy.run_path(
    str(Path(__file__).parents[1] / "recipes" / "cmn_eng" / "adopt.py"), run_name="adopt"
)
PARENT = PRETRAINED / "english-french"
PAIRS = [("I love you.", "我爱你。"), ("Hi.", "嗨。"), ("Thank you!", "谢谢！")]


@pytest.mark.parametrize("new", ["source", "target"])
def test_all_but_the_chinese_side_is_that_of_the_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str
) -> None:
    pairs = tmp_path / "pairs.tsv"
    order = 1 if new == "target" else -1
    pairs.write_text("".join("\t".join(pair[::order]) + "\n" for pair in PAIRS), "utf-8")
    made = tmp_path / "start"
    arguments = [str(PARENT), str(pairs), str(made), "--new", new, "--subwords", "11"]
    monkeypatch.setattr(sys, "argv", ["adopt.py", *arguments])
    ADOPT["main"]()
    parent, child = read_weights(PARENT / WEIGHTS), read_weights(made / WEIGHTS)
    joint = parent["decoder.embedding.weight"]
    english, chinese = ("encoder", "decoder") if new == "target" else ("decoder", "encoder")
    assert torch.equal(child[f"{english}.embedding.weight"], joint)
    size = len(Vocabulary.from_json((made / f"{new}.json").read_text("utf-8")))
    assert child[f"{chinese}.embedding.weight"].shape == (size, joint.shape[1]) and size < 30
    own = {"encoder.embedding.weight", "decoder.embedding.weight"}
    own |= {"decoder.output.bias"} if new == "target" else set()
    assert child.keys() - own == parent.keys() - own
    assert all(torch.equal(child[name], parent[name]) for name in child.keys() - own)
    text = PAIRS[0][0 if new == "target" else 1]
    assert Translator.load(made).translate(text, beam=1).words.source


def test_characters_of_the_pairs_are_in_the_new_vocabulary(tmp_path: Path) -> None:
    learnt = ADOPT["learn_subwords"](
        [target for _, target in PAIRS],
        ADOPT["PairDataSettings"](train="", subwords=11),
    )
    assert all(learnt.decode(learnt.encode(target)) == target for _, target in PAIRS)
