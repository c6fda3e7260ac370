"""CTC prefix scores compared with sums over all paths and with the recurrence."""

import itertools
import math

import numpy as np
import pytest
import torch

from asr.search import BeamSettings, CTCPrefixScorer, beam_search
from asr.text.vocabulary import BLANK, EOS


def random_log_probs(utterances, frames, size, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = scale * torch.randn(utterances, frames, size, generator=generator)
    return values.log_softmax(-1).numpy()


def without_end(log_probs):
    """Return log-probabilities with <eos> impossible, as in CTC training."""
    log_probs[..., EOS] = -np.inf
    return torch.from_numpy(log_probs).log_softmax(-1).numpy()


def labellings(log_probs):
    """Return the probability of every labelling (text), summed over all paths of the frames."""
    found = {}
    for path in itertools.product(range(log_probs.shape[-1]), repeat=len(log_probs)):
        text = tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != BLANK)
        probability = math.exp(sum(float(log_probs[t, symbol]) for t, symbol in enumerate(path)))
        found[text] = found.get(text, 0.0) + probability
    return found


def follow(scorer, text, batch=1):
    """Return the state after a text, the same for all utterances, and the sum of its scores."""
    state, total = scorer.start(batch), np.zeros(batch)
    parents = np.zeros((batch, 1), np.int64)
    for token in text:
        total = total + scorer.scores(state)[:, 0, token]
        state = scorer.advance(state, parents, np.full((batch, 1), token), parents == 0)
    return state, total


def add(first, second):
    """log(e ** first + e ** second)."""
    high, low = max(first, second), min(first, second)
    return high + math.log1p(math.exp(low - high)) if low > -math.inf else high


def stepwise(log_probs, text, token):
    """Return the prefix log-probability of text + token (EOS: of the text), frame by frame."""
    symbol = [-math.inf] * (len(log_probs) + 1)
    blank = [0.0]
    for frame in log_probs.astype(float):
        blank.append(blank[-1] + float(frame[BLANK]))
    last, prefix = BLANK, 0.0
    for each in (*text, token):
        if each == EOS:
            return add(symbol[-1], blank[-1])
        before = blank if each == last else [add(s, b) for s, b in zip(symbol, blank, strict=True)]
        new_symbol, new_blank, prefix = [-math.inf], [-math.inf], -math.inf
        for t, frame in enumerate(log_probs.astype(float)):
            started = before[t] + float(frame[each])
            prefix = add(prefix, started)
            new_blank.append(add(new_symbol[t], new_blank[t]) + float(frame[BLANK]))
            new_symbol.append(add(new_symbol[t] + float(frame[each]), started))
        symbol, blank, last = new_symbol, new_blank, each
    return prefix


@pytest.mark.parametrize("text", [(), (2,), (2, 3), (2, 2), (3, 2, 2)])
def test_scores_are_sums_over_all_paths(text):
    log_probs = random_log_probs(1, 6, 4)
    log_probs = without_end(log_probs)
    found = labellings(log_probs[0])
    scorer = CTCPrefixScorer(log_probs, np.array([6]), 1.0)
    state, total = follow(scorer, text)
    sums = total + scorer.scores(state)[0, 0]
    assert math.exp(sums[EOS]) == pytest.approx(found.get(text, 0.0), rel=1e-6)
    for token in (2, 3):
        longer = (*text, token)
        wanted = sum(p for each, p in found.items() if each[: len(longer)] == longer)
        assert math.exp(sums[token]) == pytest.approx(wanted, rel=1e-6)
    assert state.prefixes.prefix.item() == pytest.approx(total.item(), abs=1e-9)


def test_scores_are_a_distribution():
    # A prefix ends or continues in exactly one way: the probabilities of all continuations sum to
    # 1.
    log_probs = random_log_probs(3, 40, 8)
    log_probs = without_end(log_probs)
    scorer = CTCPrefixScorer(log_probs, np.array([40, 17, 31]), 0.5)
    for text in [(), (2,), (3, 3), (4, 5, 4, 2)]:
        scores = scorer.scores(follow(scorer, text, 3)[0])
        np.testing.assert_allclose(np.exp(scores[..., BLANK + 1 :]).sum(-1), 1, atol=1e-6)


def test_long_audio_is_as_exact_as_stepwise():
    # Peaked posteriors: products of probabilities reach e**-4000, below the range of floats.
    log_probs = random_log_probs(1, 300, 5, scale=10.0, seed=2)
    assert -80 < log_probs.min() < -40
    scorer = CTCPrefixScorer(log_probs, np.array([300]), 1.0)
    for text in [(2,), (3, 3), tuple(2 + place * place % 3 for place in range(24))]:
        state, total = follow(scorer, text)
        sums = total + scorer.scores(state)[0, 0]
        for token in (EOS, 2, 3, 4):
            wanted = stepwise(log_probs[0], text, token)
            assert float(sums[token]) == pytest.approx(wanted, rel=1e-9)


def test_padding_does_not_count():
    log_probs = random_log_probs(2, 30, 6)
    padded = log_probs.copy()
    padded[1, 20:] = math.nan
    together = CTCPrefixScorer(padded, np.array([30, 20]), 1.0)
    single = CTCPrefixScorer(log_probs[1:, :20], np.array([20]), 1.0)
    for text in [(), (2, 4, 4), (5,) * 7]:
        first = together.scores(follow(together, text, 2)[0])[1:]
        np.testing.assert_allclose(first, single.scores(follow(single, text)[0]), rtol=1e-9)


def test_hypotheses_are_reordered_like_the_beam():
    log_probs = random_log_probs(2, 12, 6)
    scorer = CTCPrefixScorer(log_probs, np.array([12, 12]), 1.0)
    state = scorer.start(2)
    for parents, tokens in [
        (np.zeros((2, 3), np.int64), np.array([[2, 3, 4], [5, 4, 3]])),
        (np.array([[2, 0], [1, 1]]), np.array([[4, 5], [4, 2]])),
    ]:
        state = scorer.advance(state, parents, tokens, np.ones(tokens.shape, bool))
    scores = scorer.scores(state)
    for row, column, text in [(0, 0, (4, 4)), (0, 1, (2, 5)), (1, 0, (4, 4)), (1, 1, (4, 2))]:
        wanted = scorer.scores(follow(scorer, text, 2)[0])[row, 0]
        np.testing.assert_allclose(scores[row, column], wanted, rtol=1e-9)


def test_impossible_texts_score_low_but_finite():
    scorer = CTCPrefixScorer(random_log_probs(1, 3, 5), np.array([3]), 1.0)
    state, total = follow(scorer, (2, 2, 2, 3, 4))
    assert np.isfinite(scorer.scores(state)).all() and np.isfinite(total).all()
    assert total.item() < -1e4 + 1
    assert state.prefixes.prefix.item() == pytest.approx(total.item())


def test_ctc_alone_finds_what_the_frames_say(toys):
    memory = toys.table_memory(1, 6, 3, seed=4)
    frames = torch.tensor([[0, 3, 3, 0, 3, 4, 0, 0]])
    log_probs = (9.0 * torch.nn.functional.one_hot(frames, 6)).log_softmax(-1).numpy()
    scorer = CTCPrefixScorer(log_probs, np.array([8]), 1.0)
    settings = BeamSettings(size=6, end_threshold=None, guard=None)
    decoder = toys.bound(toys.TableDecoder(), memory)
    (found,) = beam_search(decoder, np.array([8]), settings, [scorer])[0]
    assert found.tokens == [3, 3, 4]


def test_scores_of_another_batch_are_refused(toys):
    scorer = CTCPrefixScorer(random_log_probs(2, 3, 5), np.array([3, 3]), 0.3)
    with pytest.raises(ValueError, match="2 utterances"):
        decoder = toys.bound(toys.TableDecoder(), toys.table_memory(1, 5, 2))
        beam_search(decoder, np.array([2]), scorers=[scorer])


def test_dead_hypotheses_change_no_scores_of_the_others():
    log_probs = random_log_probs(2, 20, 6)
    scorer = CTCPrefixScorer(log_probs, np.array([20, 13]), 1.0)
    state = scorer.start(2)
    parents, tokens = np.zeros((2, 3), int), np.array([[2, 3, 4], [5, 2, 3]])
    alive = np.array([[True, False, True], [False, False, True]])
    every = scorer.advance(state, parents, tokens, np.ones((2, 3), bool))
    some = scorer.advance(state, parents, tokens, alive)
    np.testing.assert_array_equal(scorer.scores(some)[alive], scorer.scores(every)[alive])
    parents, tokens = np.array([[2, 0], [2, 2]]), np.array([[4, 3], [3, 5]])
    every, some = (scorer.advance(each, parents, tokens, tokens > 0) for each in (every, some))
    np.testing.assert_allclose(scorer.scores(some), scorer.scores(every), atol=1e-12)
    kept = scorer.take(some, np.array([1]))
    np.testing.assert_array_equal(scorer.scores(kept), scorer.scores(some)[1:])
