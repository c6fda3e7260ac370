"""Minimum risk: value, gradient, and the errors that the two tasks count."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_translation import task
from torch import Tensor

from asr.attention import Annotations
from asr.corpora.collate import unpad
from asr.errors import UserError
from asr.models.settings import AttentionSettings, DecoderSettings, TextualSettings
from asr.models.settings import TranslationSettings as Sizes
from asr.models.translation import TranslationModel, build_translation_model
from asr.search.hypothesis import Hypothesis
from asr.text.vocabulary import EOS
from asr.training.config import TranslationLossSettings
from asr.training.losses.risk import expected_errors, weigh

BEAM = 3
LIMITS = np.array([4, 6])
WANTED = [[0], [1]]  # the index of each utterance, which identifies it in the cost


def model(dropout: float = 0.0) -> TranslationModel:
    torch.manual_seed(0)
    encoder = TextualSettings(embedding_size=6, state_size=5, dropout=dropout)
    decoder = DecoderSettings(embedding_size=6, state_size=7, readout_size=6, dropout=dropout)
    sizes = Sizes(encoder=encoder, attention=AttentionSettings(size=5), decoder=decoder)
    made = build_translation_model(sizes, 9, 8).double()
    for parameter in made.parameters():  # larger, so that outputs depend on the text
        torch.nn.init.normal_(parameter, std=0.6)
    with torch.no_grad():
        made.decoder.output.bias[EOS] += 4  # so that lengths differ
    return made


def remember(made: TranslationModel):
    tokens = torch.tensor([[3, 5, 4, EOS], [6, 7, EOS, 0]])
    return made.decoder.prepare(made.encoder(tokens, torch.tensor([4, 3])))


def cost(wanted: list[int], tokens: list[int]) -> float:
    """Return a cost that differs between texts."""
    return abs(sum(tokens) - 9 - 4 * wanted[0]) + 0.3 * len(tokens)


def log_probability(made: TranslationModel, place: int, tokens: list[int]) -> Tensor:
    """Return the log-probability of one text, step by step."""
    memory = remember(made)
    one = made.decoder.prepare(
        Annotations(memory.values[place : place + 1], memory.mask[place : place + 1])
    )
    state, total = made.decoder.start(one), torch.zeros((), dtype=torch.float64)
    for last, token in zip([EOS, *tokens], [*tokens, EOS], strict=True):
        logits, state = made.decoder.step(torch.tensor([[last]]), state, one)
        total = total + logits[0, 0].log_softmax(-1)[token]
    return total


def text(tokens: list[int], log_probability: float) -> Hypothesis:
    return Hypothesis(tokens, log_probability, np.zeros(0), "eos", [])


def test_texts_are_weighed_by_how_much_better_than_expected_they_are():
    shares = torch.tensor([0.75, 0.25]).log().tolist()
    found = [[text([1], shares[0]), text([2, 3], shares[1])], [text([], -7.0)]]
    given = weigh(found, WANTED, lambda wanted, tokens: 4.0 * len(tokens) + wanted[0])
    assert given.tokens == [[1], [2, 3], []] and given.utterances.tolist() == [0, 0, 1]
    assert given.risk == pytest.approx(0.75 * 4 + 0.25 * 8 + 1)
    assert given.weights.tolist() == pytest.approx([0.75, -0.75, 0.0])  # R = 5 and 1


def test_value_and_gradient_are_those_of_the_risk():
    made, asked = model(), []

    def noted(wanted: list[int], tokens: list[int]) -> float:
        asked.append((wanted[0], tokens))
        return cost(wanted, tokens)

    found = expected_errors(
        made, remember(made), lambda: remember(made), LIMITS, WANTED, noted, BEAM
    )
    wanted = torch.zeros((), dtype=torch.float64)
    for place in (0, 1):
        texts = [tokens for where, tokens in asked if where == place]
        assert len(texts) == BEAM and len({len(each) for each in texts}) > 1
        shares = torch.stack([log_probability(made, place, each) for each in texts]).softmax(0)
        wanted = wanted + (shares * torch.tensor([cost([place], each) for each in texts])).sum()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)  # shares are in float32
    parameters = list(made.parameters())
    gradients = torch.autograd.grad(3 * found, parameters)
    for one, other in zip(gradients, torch.autograd.grad(3 * wanted, parameters), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert max(each.abs().max() for each in gradients) > 0.1


def test_the_search_is_without_dropout_and_leaves_it_on():
    made = model(dropout=0.5).train()

    def calm():
        assert not made.training and not torch.is_grad_enabled()
        return remember(made)

    memory = remember(made)
    expected_errors(made, memory, calm, LIMITS, WANTED, cost, BEAM)
    assert made.training and torch.is_grad_enabled()
    with pytest.raises(ZeroDivisionError):
        expected_errors(made, memory, lambda: 1 / 0, LIMITS, WANTED, cost, BEAM)
    assert made.training


def test_translation_counts_the_bleu_that_is_missed(tmp_path):
    made = task(tmp_path)
    batch = made.make(0, 0, [0, 3, 4])
    right = made.target.encode("je suis chez moi .")
    assert unpad(batch.tokens, batch.token_lengths)[1] == right
    assert made._cost(right, right) == pytest.approx(0)
    assert made._cost(right, right[:3]) == pytest.approx(6 * (1 - 0.5134), abs=1e-3)  # e^(1 − 5/3)
    assert made._cost(right, made.target.encode("va chez toi !")) > 4
    plain = made.loss(batch, 0)
    made.config = replace(made.config, loss=replace(made.config.loss, risk=0.25, risk_beam=2))
    found = made.loss(batch, 0)
    assert 0 < found.parts["risk"] <= 1
    torch.testing.assert_close(found.total, 0.75 * plain.total + 0.25 * found.parts["risk"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"risk": 0.5, "consistency": 1.0}, "do not go together"),
        ({"risk": 1.5}, "risk must .*got 1.5"),
        ({"risk": 0.5, "risk_beam": 1}, "risk_beam must .*at least 2|risk_beam must be from 2"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(UserError, match=message):
        TranslationLossSettings(**settings)
