"""The n-gram model: probabilities by hand, and states that follow the text."""

import numpy as np
import pytest

from asr.errors import UserError
from asr.lm.characters import NgramModel, count_ngrams
from asr.text.vocabulary import BLANK, EOS

TEXTS = [[2, 3, 2, 4], [3, 2, 2], [2, 3, 3, 4, 2, 3], []]
SIZE = 6


def by_hand(history, token, order):
    """The docstring's formula, by counting in the texts."""
    if len(history) >= order:
        return by_hand(history[1:], token, order)
    lines = [[EOS, *text, EOS] for text in TEXTS]
    followers = [
        line[place]
        for line in lines
        for place in range(max(len(history), 1), len(line))
        if tuple(line[place - len(history) : place]) == history
    ]
    shorter = by_hand(history[1:], token, order) if history else 1 / (SIZE - 1)
    if not followers:
        return shorter
    different = len(set(followers))
    return (followers.count(token) + different * shorter) / (len(followers) + different)


def walk(model, text):
    state = model.start(1)
    for token in text:
        state = model.advance(state, np.array([[0]]), np.array([[token]]))
    return state


@pytest.mark.parametrize("order", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("text", [[], [2], [2, 3], [5], [3, 5, 2], [2, 3, 3, 4, 2], [4, 4, 2, 3]])
def test_probabilities_are_those_of_the_formula(order, text):
    model = NgramModel.train(TEXTS, SIZE, order)
    found = np.exp(model.log_probs(walk(model, text))[0, 0])
    for token in range(1, SIZE):
        wanted = by_hand((EOS, *text), token, order)
        assert float(found[token]) == pytest.approx(wanted, rel=1e-5)
    assert float(found[BLANK]) == 0
    assert float(found.sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("text", [[], [2], [2, 3], [2, 3, 4, 5, 2, 3]])
def test_an_order_above_the_length_of_the_text_changes_nothing(text):
    model, wanted = (NgramModel.train([text], SIZE, order) for order in (9, len(text) + 2))
    for length in range(len(text) + 1):
        states = (walk(each, text[:length]) for each in (model, wanted))
        found, expected = (
            each.log_probs(state) for each, state in zip((model, wanted), states, strict=True)
        )
        assert (found == expected).all()


def test_hypotheses_of_a_batch_are_independent():
    model = NgramModel.train(TEXTS, SIZE, 4)
    state = model.advance(
        model.start(2), np.zeros((2, 3), np.int64), np.array([[2, 3, 4], [3, 3, 2]])
    )
    state = model.advance(state, np.array([[1, 1], [2, 0]]), np.array([[2, 3], [3, 4]]))
    for row, column, text in [(0, 0, [3, 2]), (0, 1, [3, 3]), (1, 0, [2, 3]), (1, 1, [3, 4])]:
        assert int(state[row, column]) == walk(model, text).item()


def test_rare_histories_can_be_left_out():
    full, pruned = (count_ngrams(TEXTS, SIZE, 4, least) for least in (1, 2))
    assert [len(grams) for grams in pruned.grams[:2]] == [len(grams) for grams in full.grams[:2]]
    assert len(pruned.grams[3]) < len(full.grams[3])
    model = NgramModel(pruned)
    for text in ([], [2, 3], [2, 3, 3, 4, 2, 3]):
        assert np.exp(model.log_probs(walk(model, text))).sum() == pytest.approx(1, abs=1e-5)


def test_text_it_was_trained_on_is_likelier_than_noise():
    model = NgramModel.train(TEXTS, SIZE, 4)
    assert model.log_probs(walk(model, [2, 3, 3]))[0, 0].argmax() == 4


def test_senseless_orders_and_no_text_are_refused():
    with pytest.raises(UserError, match="order"):
        NgramModel.train(TEXTS, 5000, 6)
    with pytest.raises(UserError, match="lines"):
        NgramModel.train([], SIZE)
