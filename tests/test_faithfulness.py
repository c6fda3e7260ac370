"""What taking away a position costs, against a direct computation; the figures by hand."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_model import write_tiny_model

from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.translator import SHIPPED, Translator
from asr.text.vocabulary import EOS, UNK

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def faithfulness():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "recipes" / "ablations"))
        return importlib.import_module("faithfulness")


@pytest.fixture(scope="module")
def sentence(faithfulness):
    translator = Translator.load(SHIPPED["fr"], runtime="torch")
    return faithfulness.Sentence(translator, "I have never seen it.", "Je ne l'ai jamais vu.")


@torch.inference_mode()
def log_prob(example, memory, step, blocked=()):
    """Return the log-probability of the correct token of a step at which positions are blocked."""
    mask = memory.mask.clone()
    mask[0, list(blocked)] = False
    inputs = [EOS, *example.tokens.tolist()]
    state = example.decoder.start(memory)
    for at, token in enumerate(inputs[: step + 1]):
        seen = memory._replace(mask=mask) if at == step else memory
        logits, state = example.decoder.step(torch.tensor([[token]]), state, seen)
    return torch.log_softmax(logits[0, 0], dim=-1)[example.tokens[step]].item()


@torch.inference_mode()
def test_hiding_a_position_changes_its_own_step_alone(faithfulness, sentence):
    effects = faithfulness.hidden(sentence)
    memory = sentence.encode([[]])
    assert effects.falls.shape == (len(sentence.tokens), len(sentence.source))
    assert effects.weights.sum(1) == pytest.approx(1.0, abs=1e-5)
    for step, position in ((0, 0), (2, 3), (4, 1)):
        wanted = log_prob(sentence, memory, step) - log_prob(sentence, memory, step, [position])
        assert effects.falls[step, position] == pytest.approx(wanted, abs=1e-4)
    assert (effects.divergences > -1e-5).all() and effects.divergences.max() > 0.1


def test_divergence_is_that_of_torch(faithfulness):
    before, after = torch.randn(2, 3, 5).log_softmax(-1)
    wanted = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=before),
        torch.distributions.Categorical(logits=after),
    )
    torch.testing.assert_close(faithfulness.divergence(before, after), wanted)


@torch.inference_mode()
def test_a_removed_token_is_unknown_to_the_encoder(faithfulness, sentence):
    effects = faithfulness.removed(sentence)
    for step, position in ((0, 0), (3, 2)):
        tokens = torch.tensor([sentence.source])
        tokens[0, position] = UNK
        memory = sentence.model.encode(tokens, torch.tensor([tokens.size(1)])).memory
        wanted = log_prob(sentence, sentence.encode([[]]), step) - log_prob(sentence, memory, step)
        assert effects.falls[step, position] == pytest.approx(wanted, abs=1e-4)


@torch.inference_mode()
def test_removed_sound_is_silence_and_positions_of_speech_have_neighbours(faithfulness, tmp_path):
    loaded = LoadedModel.load(write_tiny_model(tmp_path), runtime="torch")
    recording = ROOT / "data" / "speech" / "5683-32866-0027.flac"
    example = faithfulness.Recording(loaded, recording, "a cold")
    before = example.encode([[]])
    hidden, removed = faithfulness.hidden(example), faithfulness.removed(example)
    for effects in (hidden, removed):
        assert effects.falls.shape[0] == len("a cold") + 1
        assert np.isfinite(effects.falls).all()
    size = round(example.model.seconds_per_annotation * 16_000)
    example.samples[19 * size : 22 * size] = 0.0  # what removing position 20 takes away
    wanted = [
        log_prob(example, before, step) - log_prob(example, example.encode([[]]), step)
        for step in range(3)
    ]
    assert np.abs(wanted).max() > 1e-3
    assert removed.falls[:3, 20] == pytest.approx(wanted, abs=1e-5)
    assert faithfulness.blocks(4, 1) == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]


def test_figures_by_hand(faithfulness):
    weights = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    falls = np.array([[2.0, 0.5, 0.0], [3.0, 0.0, 1.0]])  # the largest weight is right once
    changes = np.array([[True, False, True], [True, False, False]])
    divergences = np.array([[0.3, 0.3, 0.1], [0.2, 0.1, 0.5]])  # a tie and a win; two wins
    effects = [faithfulness.Effects(falls, changes, weights, divergences)]
    assert faithfulness.won(effects) == pytest.approx(100 * (0.75 + 1.0) / 2)
    figures = faithfulness.summarise(effects, 0)
    assert figures == pytest.approx((1.5, (0.25 + 1.5) / 2, 50.0, 50.0, 50.0, 100 / 3))


def test_a_position_that_is_all_of_the_input_is_not_counted(faithfulness):
    ones = np.ones((2, 2))
    one = faithfulness.Effects(ones, np.ones((2, 2), bool), np.full((2, 2), 0.5), ones)
    most = np.array([[1.0, 0, 0, 0]])
    two = faithfulness.Effects(most, np.zeros((1, 4), bool), np.eye(4)[:1].copy(), most)
    assert faithfulness.won([two, faithfulness.Effects(*(each[:, :1] for each in one))]) == 100
    assert faithfulness.summarise([one, two], 1) == pytest.approx((1.0, 0.0, 0.0, 0.0, 100.0, 50.0))


def test_from_a_command_to_a_table(faithfulness, tmp_path, monkeypatch, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("I am cold.\tJ'ai froid.\nWe won.\tNous avons gagné.\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["faithfulness", "english-french", str(pairs)])
    faithfulness.main()
    first, _, _, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("2 outputs, ")
    assert [row.split("|")[1].strip() for row in rows] == ["hidden", "removed"]
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--ids", str(pairs)])
    with pytest.raises(UserError, match="--ids is for recordings"):
        faithfulness.main()
