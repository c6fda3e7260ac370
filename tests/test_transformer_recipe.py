"""The Transformer of the ablations: torch's layers, the package's contract, and the command."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from asr.corpora.pairs import Pair
from asr.models.encoders.self_attention import add_positions
from asr.text.vocabulary import EOS

ROOT = Path(__file__).parents[1]
VOCABULARY = 30


def load(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "recipes" / "ablations"))
        return importlib.import_module(name)


model, transformer = map(load, ("transformer_model", "transformer"))


@pytest.fixture
def small():
    torch.manual_seed(5)
    sizes = model.Sizes(size=16, layers=2, heads=2, feed_forward=24)
    made = model.Transformer(VOCABULARY, sizes).double().eval()
    for each in made.parameters():
        if each.dim() == 1:  # all layer norms begin as the identity
            nn.init.uniform_(each, 0.5, 1.5)
    return made


@pytest.fixture
def texts():
    torch.manual_seed(6)
    source, target = (torch.randint(3, VOCABULARY, shape) for shape in ((3, 6), (3, 5)))
    return source, torch.tensor([6, 4, 2]), target


@torch.inference_mode()
def test_the_decoder_is_torch_s_layers_one_after_another(small, texts):
    source, lengths, target = texts
    memory = small.encode(source, lengths).memory
    decoder = small.decoder
    hidden = add_positions(decoder.embedding(target) * 4.0)  # √16
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    for layer in decoder.layers:
        assert type(layer) is nn.TransformerDecoderLayer
        hidden = layer(hidden, memory.values, tgt_mask=causal, memory_key_padding_mask=~memory.mask)
    found = decoder(target, memory)
    torch.testing.assert_close(found.readout, decoder.norm(hidden))
    _, weights = decoder.layers[-1].multihead_attn(
        decoder.layers[-1].norm2(inner := _before_last(decoder, target, memory, causal)),
        memory.values, memory.values, key_padding_mask=~memory.mask,
    )  # fmt: skip
    assert inner.shape == hidden.shape
    torch.testing.assert_close(found.weights, weights)


def _before_last(decoder, target, memory, causal):
    """Return what the attention to the source of the last layer reads."""
    hidden = add_positions(decoder.embedding(target) * 4.0)
    first, last = decoder.layers
    hidden = first(hidden, memory.values, tgt_mask=causal, memory_key_padding_mask=~memory.mask)
    return hidden + last._sa_block(last.norm1(hidden), causal, None)


@torch.inference_mode()
def test_forward_is_the_unrolled_step_also_for_reordered_hypotheses(small, texts):
    source, lengths, target = texts
    memory = small.encode(source, lengths).memory
    wanted = small.decoder(target, memory)
    state = small.decoder.start(memory)
    for at in range(3):
        logits, state = small.decoder.step(target[:, at : at + 1], state, memory)
        torch.testing.assert_close(logits[:, 0], wanted.logits[:, at])
        torch.testing.assert_close(state.alignment.weights[:, 0], wanted.weights[:, at])
    two = state.select(torch.zeros(3, 2, dtype=torch.long))  # two hypotheses that then differ
    tokens = torch.stack([torch.full((3,), 7), target[:, 3]], dim=1)
    _, two = small.decoder.step(tokens, two, memory)
    swapped = two.select(torch.tensor([[1], [1], [1]]))
    logits, _ = small.decoder.step(target[:, 4:5], swapped, memory)
    torch.testing.assert_close(logits[:, 0], wanted.logits[:, 4])


@torch.inference_mode()
def test_a_sentence_does_not_depend_on_its_batch(small, texts):
    source, lengths, target = texts
    together = small.decoder(target, small.encode(source, lengths).memory)
    for row, length in enumerate(lengths.tolist()):
        memory = small.encode(source[row : row + 1, :length], lengths[row : row + 1]).memory
        alone = small.decoder(target[row : row + 1], memory)
        torch.testing.assert_close(together.logits[row], alone.logits[0])
        torch.testing.assert_close(together.weights[row, :, :length], alone.weights[0])
        assert not together.weights[row, :, length:].any()


def test_the_weights_of_some_layers_are_averaged(small, texts):
    memory = small.encode(*texts[:2]).memory
    found = []
    for shown in ([0], [1], [0, 1]):
        small.decoder.shown = shown
        found.append(small.decoder(texts[2], memory).weights)
    torch.testing.assert_close(found[2], (found[0] + found[1]) / 2)
    assert not torch.allclose(found[0], found[1])


def test_agreement_by_hand():
    assert transformer.agreement([[0, 1], [2]], [[0, 2], [2]]) == pytest.approx(200 / 3)


def test_the_diagonal_by_hand():
    assert transformer.diagonal(Pair("a b c", "x y z")) == [0, 1, 2]
    assert transformer.diagonal(Pair("a b", "w x y z")) == [0, 0, 1, 1]
    assert transformer.diagonal(Pair("a b c d", "x y")) == [1, 3]


def test_links_are_those_of_the_merged_words():
    class Fake:
        source = (5, 6, 7, EOS)
        tokens = torch.tensor([8, 9, EOS])

        class translator:
            class source:
                @staticmethod
                def symbols(ids):
                    names = {5: "▁a", 6: "▁b", 7: "c", 8: "▁x", 9: "▁y", EOS: "</s>"}
                    return [names[each] for each in ids]

    weights = np.array([[0.4, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.7], [1.0, 0, 0, 0]], np.float32)
    # "bc" has 0.6 in two pieces; the end is a place
    assert transformer.links(Fake, weights) == [1, 2]


def test_from_a_command_to_tables(tmp_path, monkeypatch, capsys):
    pairs = [line.split("\t") for line in (ROOT / "data" / "text" / "fra-eng-sample.tsv")
             .read_text("utf-8").splitlines()[100:130]]  # fmt: skip
    for name, side in zip(("source", "reference"), zip(*pairs, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(side) + "\n", "utf-8")
    recipe = ROOT / "recipes" / "fra_eng"
    steps = [f"--set=training.{key}=2" for key in ("steps", "validate_every")]
    sizes = ["--set=data.subwords=150", "--set=model.joint_embedding=true"]
    files = [f"--{name}={tmp_path / name}" for name in ("source", "reference")]
    asked = [recipe / "words.toml", tmp_path / "runs", f"--data={recipe}", *files, "--seeds=1",
             "--longer=3", "--most=3", *steps, *sizes]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["transformer", *map(str, asked)])
    transformer.main()
    printed = capsys.readouterr().out
    table = [line for line in printed.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table[2:5]] == [
        "recurrent", "Transformer", "Transformer, longer"
    ]  # fmt: skip
    assert [line.split("|")[3].strip() for line in table[2:5]] == ["2", "2", "3"]
    assert "Transformer, layer 2" in printed and "recurrent, default runtime" in printed
    assert (tmp_path / "runs" / "transformer.md").read_text("utf-8") == printed
    trained = tmp_path / "runs" / "transformer-1.trained.json"
    held = json.loads(trained.read_text("utf-8"))
    trained.write_text(json.dumps({**held, "training": 77.0}), "utf-8")
    transformer.main()  # nothing is trained again
    assert "77.0" in capsys.readouterr().out
