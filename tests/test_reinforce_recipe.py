"""REINFORCE of the ablations: its gradient by enumeration of all choices, and the command."""

import importlib
import sys
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch

from asr.attention.contract import Memory
from asr.text.vocabulary import EOS
from asr.training.losses.sequences import PADDING, shift
from asr.training.tasks.translation_data import TextBatch

RECIPES = Path(__file__).parents[1] / "recipes" / "ablations"


def load(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RECIPES))
        return importlib.import_module(name)


reinforce, toys = map(load, ("reinforce", "toys"))


@pytest.fixture
def task():
    made = reinforce.ReinforceTask("copy", 3, toys.Sizes(train=20, test=2, beyond=2))
    made.model.double().train()
    return made


def test_the_weights_are_one_hot_and_carry_the_log_probability_of_the_choice(monkeypatch):
    attention = reinforce.SampledAttention(3, 4, 5).double()
    values = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    memory = Memory(values, mask, attention.key(values))
    query = torch.randn(2, 1, 3, dtype=torch.float64)
    context, alignment = attention(query, memory, attention.start(memory))
    assert set(alignment.weights.flatten().tolist()) == {0.0, 1.0}
    assert not alignment.weights[1, 0, 4:].any()
    chosen = alignment.weights[:, 0].argmax(-1)
    torch.testing.assert_close(context[:, 0], values[[0, 1], chosen])
    energies = attention.energies(query, memory, attention.start(memory))
    soft = energies.masked_fill(~mask[:, None], -torch.inf).log_softmax(-1)[:, 0]
    wanted = torch.autograd.grad(soft[[0, 1], chosen].sum(), attention.energy, retain_graph=True)
    found = torch.autograd.grad(
        alignment.weights.sum(-1).log().sum(), attention.energy, retain_graph=True
    )
    torch.testing.assert_close(found, wanted)
    (through_context,) = torch.autograd.grad(
        context.sum(), attention.energy, allow_unused=True, materialize_grads=True
    )
    assert not through_context.any()


def test_the_mean_gradient_over_all_choices_is_that_of_the_expected_loss(task, monkeypatch):
    """One list of two annotations, three steps: 8 paths for each of the two samples."""
    batch = TextBatch(
        torch.tensor([[9, EOS]]), torch.tensor([2]), torch.tensor([[9, 11]]), torch.tensor([2])
    )
    parameters = list(task.model.parameters())
    paths = list(product(range(2), repeat=3))

    def forced(choices):
        steps = iter(choices)
        return lambda probabilities, _: next(steps).view(-1, 1)

    def probability_and_loss(path):
        """Compute both with gradients; the loss is that of one sample."""
        log_probability = []

        def choose(probabilities, _):
            place = path[len(log_probability)]
            log_probability.append(place)
            return torch.tensor([[place]])

        monkeypatch.setattr(torch, "multinomial", choose)
        memory = task.model.encode(*batch[:2]).memory
        previous, expected = shift(*batch[2:])
        output = task.model.decoder(previous, memory)
        right = output.logits.log_softmax(-1).gather(-1, expected[:, :, None])
        return output.weights.sum(-1).log().sum(), -right.mean()

    def exact_probability(path):
        """Return P(path) by the energies of every step, with its gradient."""
        monkeypatch.setattr(torch, "multinomial", forced([torch.tensor([p]) for p in path]))
        memory = task.model.encode(*batch[:2]).memory
        previous, _ = shift(*batch[2:])
        decoder, total = task.model.decoder, 0.0
        state = decoder.start(memory)
        for token, place in zip(previous[0], path, strict=True):
            energies = decoder.attention.energies(state.hidden, memory, state.alignment)
            total = total + energies.log_softmax(-1)[0, 0, place]
            _, state = decoder.step(token.view(1, 1), state, memory)
        return total.exp()

    chances = [exact_probability(path) for path in paths]
    assert sum(chances).item() == pytest.approx(1.0)
    expected_loss = sum(
        chance * probability_and_loss(path)[1] for chance, path in zip(chances, paths, strict=True)
    )
    wanted = torch.autograd.grad(expected_loss, parameters)
    mean = [torch.zeros_like(each) for each in parameters]
    for (one, first), (other, second) in product(
        zip(chances, paths, strict=True), zip(chances, paths, strict=True)
    ):
        columns = [torch.tensor(each) for each in zip(first, second, strict=True)]
        monkeypatch.setattr(torch, "multinomial", forced(columns))
        loss = task.loss(batch, 0).total
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        chance = (one * other).item()
        mean = [a + chance * b for a, b in zip(mean, found, strict=True)]
    for found, each in zip(mean, wanted, strict=True):
        torch.testing.assert_close(found, each, atol=1e-9, rtol=1e-6)


def test_padding_has_no_part_in_the_surrogate():
    torch.manual_seed(1)
    weights = torch.rand(4, 3, 2, dtype=torch.float64, requires_grad=True)
    log_probs = torch.randn(4, 3, dtype=torch.float64)
    expected = torch.tensor([[5, 1, PADDING], [5, 5, 1]] * 2)
    one, two = (
        reinforce.surrogate(weights, changed, expected != PADDING)
        for changed in (log_probs, torch.where(expected == PADDING, 99.0, log_probs))
    )
    torch.testing.assert_close(one, two)
    (gradient,) = torch.autograd.grad(one, weights)
    assert not gradient[[0, 2], 2].any() and gradient[[0, 2], 1].any()


def test_from_a_command_to_a_table_and_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reinforce, "Sizes", partial(toys.Sizes, test=8, beyond=4))
    asked = [tmp_path, "--toys", "copy", "--seeds", 2, "--steps", 2, "--lists", 200]
    monkeypatch.setattr(sys, "argv", ["reinforce", *map(str, asked)])
    reinforce.main()
    printed = capsys.readouterr().out
    assert (tmp_path / "reinforce.md").read_text("utf-8") == printed
    assert (tmp_path / "reinforce.png").read_bytes().startswith(b"\x89PNG")
    names = [line.split("|")[2].strip() for line in printed.splitlines()[2:]]
    assert names == ["soft", "straight-through", "REINFORCE"]
