"""Beam search: equal to greedy with beam 1, and to brute force with a large beam."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from asr.errors import UserError
from asr.lm.characters import NgramModel
from asr.search import (
    BeamSettings,
    CTCPrefixScorer,
    LanguageModelScorer,
    WordPenalty,
    beam_search,
    greedy,
)
from asr.text.vocabulary import BLANK, EOS

SIZE, LIMIT = 5, 4  # vocabulary with blank and end-of-sentence, longest text
EXHAUSTIVE = BeamSettings(size=(SIZE - 1) ** LIMIT, end_threshold=None, width=math.inf, guard=None)


def alone(memory, row):
    return type(memory)(*(part[row : row + 1] for part in memory))


def ranked(totals, settings):
    """Return the texts by rank; totals: text → sum."""
    scores = {
        text: (total + settings.length_bonus * len(text))
        / (len(text) + 1) ** settings.length_exponent
        for text, total in totals.items()
    }
    return sorted(scores.items(), key=lambda item: -item[1])


def assert_best(found, expected):
    assert [tuple(each.tokens) for each in found] == [text for text, _ in expected]
    for each, (_, score) in zip(found, expected, strict=True):
        assert each.score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "lengths",
    [
        {},
        {"length_exponent": 1.0},
        {"length_bonus": 0.7},
        {"length_exponent": 0.6, "length_bonus": -0.2},
    ],
)
def test_wide_beam_is_brute_force(toys, seed, lengths):
    memory = toys.table_memory(3, SIZE, LIMIT, seed)
    settings = dataclasses.replace(EXHAUSTIVE, **lengths)
    found = beam_search(
        toys.bound(toys.TableDecoder(), memory), np.array([4, 3, 4]), settings, best=6
    )
    for values, limit, each in zip(memory.values, (4, 3, 4), found, strict=True):
        texts = toys.all_texts(values, limit)
        totals = {text: sum(summands) for text, summands in texts.items()}
        assert_best(each, ranked(totals, settings)[:6])
        for one in each:
            assert one.token_log_probabilities == pytest.approx(texts[tuple(one.tokens)], abs=1e-5)


@pytest.mark.parametrize("scorer", ["ctc", "lm", "both", "words"])
def test_wide_beam_with_scorers_is_brute_force(toys, scorer):
    memory = toys.table_memory(2, SIZE, LIMIT, seed=5)
    log_probs = torch.randn(2, 7, SIZE).mul(2).log_softmax(-1)
    frames = torch.tensor([7, 5])
    model = NgramModel.train([[2, 3, 4], [2, 2], [4, 3, 2, 2]], SIZE, order=3)
    share, scorers = 1.0, []
    if scorer in ("ctc", "both"):
        share, scorers = 0.6, [CTCPrefixScorer(log_probs.numpy(), frames.numpy(), 0.4)]
    if scorer == "words":
        scorers = [WordPenalty(3, SIZE, 0.7)]
    if scorer in ("lm", "both"):
        scorers = [*scorers, LanguageModelScorer(model, 0.5)]
    found = beam_search(
        toys.bound(toys.TableDecoder(), memory), np.array([4, 4]), EXHAUSTIVE, scorers, 4
    )
    for row, each in enumerate(found):
        totals = {}
        for text, summands in toys.all_texts(memory.values[row], LIMIT).items():
            totals[text] = share * sum(summands)
            if scorer in ("ctc", "both"):
                totals[text] += 0.4 * ctc(log_probs[row, : frames[row]], text)
            if scorer in ("lm", "both"):
                totals[text] += 0.5 * said_by(model, text)
            if scorer == "words":
                totals[text] -= 0.7 * text.count(3)
        possible = {text: total for text, total in totals.items() if total > -1000}
        assert_best(each, ranked(possible, EXHAUSTIVE)[:4])


def ctc(log_probs, text):
    """log p(text) by torch's loss."""
    loss = torch.nn.functional.ctc_loss(
        log_probs[:, None].double(),
        torch.tensor([text], dtype=torch.long).view(1, -1),
        torch.tensor([len(log_probs)]),
        torch.tensor([len(text)]),
        reduction="sum",
    )
    return -float(loss)


def said_by(model, text):
    state = model.start(1)
    total = 0.0
    for token in (*text, EOS):
        total += float(model.log_probs(state)[0, 0, token])
        state = model.advance(state, np.array([[0]]), np.array([[token]]))
    return total


@pytest.mark.parametrize("lengths", [{}, {"length_exponent": 1.0}, {"length_bonus": 2.0}])
@pytest.mark.parametrize("seed", range(3))
def test_beam_of_one_is_greedy(toys, seed, lengths):
    decoder, memory = toys.real(8, 12, seed)
    limits = np.array([0, 3, 9, 25, 25, 40, 60, 60])
    wanted = greedy(toys.bound(decoder, memory), limits)
    found = beam_search(toys.bound(decoder, memory), limits, BeamSettings(size=1, **lengths))
    assert len({each.stop_reason for each in wanted}) > 1
    for each, (one,) in zip(wanted, found, strict=True):
        assert one.tokens == each.tokens and one.stop_reason == each.stop_reason
        np.testing.assert_allclose(one.weights, each.weights, atol=1e-6)
        assert one.token_log_probabilities == pytest.approx(each.token_log_probabilities, abs=1e-6)
        assert one.log_probability == pytest.approx(each.log_probability, abs=1e-5)


@pytest.mark.parametrize("scored", [False, True])
def test_batch_is_alone(toys, scored):
    decoder, memory = toys.real(7, 12, seed=1)
    limits = np.arange(7) * 5
    log_probs = torch.randn(7, 30, 9).mul(2).log_softmax(-1)
    frames = torch.tensor([30, 12, 30, 30, 20, 25, 30])
    model = NgramModel.train([[2, 3, 4, 8], [5, 5, 6, 7]], 9, order=3)

    def scorers(rows):
        if not scored:
            return []
        ctc_scorer = CTCPrefixScorer(log_probs[rows].numpy(), frames[rows].numpy(), 0.3)
        return [ctc_scorer, LanguageModelScorer(model, 0.2)]

    together = beam_search(
        toys.bound(decoder, memory), limits, BeamSettings(size=4), scorers(slice(None)), best=3
    )
    assert len({len(each[0].tokens) for each in together}) > 3
    for row, each in enumerate(together):
        one = slice(row, row + 1)
        (single,) = beam_search(
            toys.bound(decoder, alone(memory, row)),
            limits[one],
            BeamSettings(size=4),
            scorers(one),
            best=3,
        )
        assert [each.tokens for each in single] == [other.tokens for other in each]
        for first, second in zip(single, each, strict=True):
            assert first.score == pytest.approx(second.score, abs=1e-3)
            np.testing.assert_allclose(first.weights, second.weights, atol=1e-3)


def test_probabilities_and_weights_are_those_of_teacher_forcing(toys):
    decoder, memory = toys.real(4, 10, seed=1)
    found = beam_search(
        toys.bound(decoder, memory), np.array([20] * 4), BeamSettings(size=6), best=6
    )
    with torch.no_grad():
        for row, hypotheses in enumerate(found):
            assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses)
            for each in hypotheses:
                output = decoder(torch.tensor([[EOS, *each.tokens]]), alone(memory, row))
                np.testing.assert_allclose(each.weights, output.weights[0], atol=1e-3)
                targets = torch.tensor([*each.tokens, EOS])[:, None]
                summands = output.logits[0].log_softmax(-1).gather(1, targets)[:, 0]
                assert each.token_log_probabilities == pytest.approx(summands.tolist(), abs=1e-3)
                if each.stop_reason != "repeat":
                    assert each.score == pytest.approx(each.log_probability, abs=1e-3)


def test_wider_is_not_worse_than_greedy_here(toys):
    memory = toys.table_memory(20, SIZE, LIMIT, seed=8)
    limits = np.array([LIMIT] * 20)
    narrow = greedy(toys.bound(toys.TableDecoder(), memory), limits, guard=None)
    settings = BeamSettings(size=8, end_threshold=None, guard=None)
    wide = beam_search(toys.bound(toys.TableDecoder(), memory), limits, settings)
    gains = [
        best.log_probability - each.log_probability
        for each, (best,) in zip(narrow, wide, strict=True)
    ]
    assert min(gains) > -1e-6 and max(gains) > 0.1


def test_end_threshold_bars_an_unlikely_end(toys):
    memory = toys.table_memory(1, SIZE, LIMIT)
    memory.values[:] = torch.tensor([0.0, 2.0, 3.0, 0.0, 0.0])  # <eos> is second at every step
    short = dataclasses.replace(EXHAUSTIVE, size=8)
    (free,) = beam_search(toys.bound(toys.TableDecoder(), memory), np.array([LIMIT]), short)[0]
    barred = dataclasses.replace(short, end_threshold=1.5)
    (held,) = beam_search(toys.bound(toys.TableDecoder(), memory), np.array([LIMIT]), barred)[0]
    assert free.tokens == [] and free.stop_reason == "eos"
    assert len(held.tokens) == LIMIT and held.stop_reason == "length"


@pytest.mark.parametrize(
    ("settings", "alive"),  # active hypotheses at each step
    [
        (BeamSettings(size=3), 3),
        (BeamSettings(size=3, width=math.inf, end_threshold=None), 3),
        (BeamSettings(size=3, width=1.0, end_threshold=None, length_exponent=1.0), 1),
        (BeamSettings(size=3, width=7.0, end_threshold=None, length_bonus=0.01), 1),
    ],
)
def test_utterances_stop_when_nothing_can_beat_what_has_ended(toys, settings, alive):
    script = [(3 + step % 7, step) for step in range(40)]
    memory = toys.scripted_memory(*(script[:length] for length in (3, 4, 39)))
    decoder = toys.ScriptedDecoder()
    seen, step = [], decoder.step

    def counted(token, state, memory):
        seen.append(tuple(token.shape))
        return step(token, state, memory)

    decoder.step = counted
    found = beam_search(toys.bound(decoder, memory), np.array([100] * 3), settings)
    assert [len(each[0].tokens) for each in found] == [3, 4, 39]
    assert seen == [(3, 1)] + [(3, alive)] * 3 + [(2, alive)] + [(1, alive)] * 35


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("bonus", [-0.3, 0.0, 0.3, 2.0])
def test_bound_is_above_all_that_may_follow(exponent, bonus):
    settings = BeamSettings(length_exponent=exponent, length_bonus=bonus)
    for total in (-20.0, -3.0, -0.1, 0.0):
        for length in (0, 4, 9):
            bound = settings.bound(total, length, limit=12)
            for longer in range(length, 13):
                assert bound >= settings.rank(total, longer) - 1e-12
                assert bound >= settings.rank(total - 1, longer)
            for gain in (0.2, 1.5):  # each remaining token, and <eos>, may add this much
                bound = settings.bound(total, length, limit=12, gain=gain)
                for longer in range(length, 13):
                    reached = total + gain * (longer - length + 1)
                    assert bound >= settings.rank(reached, longer) - 1e-12


@pytest.mark.parametrize("size", [1, 3])
def test_the_limit_ends_a_text_by_length_unless_it_ends_there_itself(toys, size):
    memory = toys.scripted_memory([(3, 0), (4, 1), (EOS, 2)], [(3, 0), (4, 1), (5, 2), (6, 2)])
    settings = BeamSettings(size=size)
    (itself,), (cut,) = beam_search(
        toys.bound(toys.ScriptedDecoder(), memory), np.array([2, 2]), settings
    )
    assert (itself.tokens, itself.stop_reason) == ([3, 4], "eos")
    assert (cut.tokens, cut.stop_reason) == ([3, 4], "length")
    assert cut.weights.argmax(-1).tolist() == [0, 1, 2]


class Indifferent:
    """A scorer with equal scores for all tokens, the blank included."""

    weight, shares, bound = 1.0, True, 0.0

    def start(self, batch):
        return np.zeros((batch, 1, SIZE))

    def scores(self, state):
        return state

    def advance(self, state, parents, tokens, alive):
        return np.zeros((*parents.shape, SIZE))

    def take(self, state, rows):
        return state[rows]


def test_blank_is_never_said_whatever_a_scorer_thinks(toys):
    memory = toys.table_memory(2, SIZE, LIMIT)
    found = beam_search(
        toys.bound(toys.TableDecoder(), memory),
        np.array([4, 4]),
        EXHAUSTIVE,
        [Indifferent()],
        best=500,
    )
    texts = 1 + 3 + 9 + 27 + 81
    assert [len(each) for each in found] == [texts, texts]
    assert all(BLANK not in one.tokens for each in found for one in each)


def test_memory_is_shared_by_the_beam(toys):
    decoder, memory = toys.real(2, 10)
    step = decoder.step

    def checked(token, state, given):
        assert given.values.data_ptr() == memory.values.data_ptr()
        assert given.values.shape == memory.values.shape
        return step(token, state, given)

    decoder.step = checked
    beam_search(toys.bound(decoder, memory), np.array([6, 6]), BeamSettings(size=5, guard=None))


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"end_threshold": 0.5}, {"length_exponent": -1.0}, {"width": 0.0}],
)
def test_senseless_settings_are_refused(wrong):
    with pytest.raises(UserError):
        BeamSettings(**wrong)


@pytest.mark.parametrize("weight", [1.5, -0.1])
def test_senseless_weights_are_refused(toys, weight):
    memory = toys.table_memory(1, SIZE, LIMIT)
    scorer = CTCPrefixScorer(np.zeros((1, 4, SIZE)), np.array([4]), weight)
    with pytest.raises(UserError, match="weights"):
        beam_search(toys.bound(toys.TableDecoder(), memory), np.array([4]), scorers=[scorer])


def test_scores_that_are_no_numbers_are_named(toys):
    memory = toys.table_memory(1, SIZE, LIMIT)
    memory.values[:] = math.nan
    with pytest.raises(ValueError, match="not numbers"):
        beam_search(toys.bound(toys.TableDecoder(), memory), np.array([LIMIT]))


@pytest.mark.parametrize("last", [1, 2, 3, LIMIT + 1])
def test_of_those_that_end_alike_the_best_lives_on(toys, last):
    memory = toys.table_memory(3, SIZE, LIMIT, seed=8)
    settings = dataclasses.replace(EXHAUSTIVE, recombine=last)
    found = beam_search(
        toys.bound(toys.TableDecoder(), memory), np.array([LIMIT] * 3), settings, best=9
    )
    for values, each in zip(memory.values, found, strict=True):
        texts = toys.all_texts(values, LIMIT)
        prefixes = {
            text[:length]: sum(texts[text][:length])
            for text in texts
            for length in range(len(text) + 1)
        }
        kept = {()}
        for length in range(1, LIMIT + 1):
            best = {}
            for text in sorted(prefixes, key=lambda text: -prefixes[text]):
                if len(text) == length and text[:-1] in kept:
                    best.setdefault(((EOS,) * last + text)[-last:], text)
            kept |= set(best.values())
        totals = {text: sum(texts[text]) for text in kept}
        assert_best(each, ranked(totals, settings)[:9])
        assert (len(kept) == len(texts)) == (last > LIMIT)
