"""Internal-LM subtraction: compared with brute force, and independent of the batch."""

import math

import numpy as np
import pytest
import torch

from asr.attention import Annotations
from asr.search import BeamSettings, InternalModelScorer, beam_search
from asr.text.vocabulary import BLANK, EOS

SIZE, LIMIT = 5, 3  # vocabulary with blank and end-of-sentence, longest text
WEIGHT = 0.4


def test_a_wide_beam_with_it_is_brute_force(toys):
    heard, unheard = (toys.table_memory(2, SIZE, LIMIT, seed) for seed in (1, 2))
    unheard = unheard._replace(values=3 * unheard.values)  # so that some exceed MOST
    settings = BeamSettings(
        size=(SIZE - 1) ** LIMIT,
        end_threshold=None,
        width=math.inf,
        guard=None,
    )
    decoder = toys.TableDecoder()
    scorer = InternalModelScorer(toys.bound(decoder, unheard), WEIGHT)
    limits = np.array([LIMIT] * 2)
    found = beam_search(toys.bound(decoder, heard), limits, settings, [scorer], best=5)
    for row, each in enumerate(found):
        internal = toys.all_texts(unheard.values[row], LIMIT)
        assert min(min(summands) for summands in internal.values()) < -InternalModelScorer.MOST
        totals = {}
        for text, summands in toys.all_texts(heard.values[row], LIMIT).items():
            off = [
                min(-one, InternalModelScorer.MOST) for one in internal[text][:-1]
            ]  # without <eos>
            totals[text] = sum(summands) + WEIGHT * sum(off)
        expected = sorted(totals.items(), key=lambda item: -item[1])[:5]
        assert [tuple(one.tokens) for one in each] == [text for text, _ in expected]
        assert [one.score for one in each] == pytest.approx([sum_ for _, sum_ in expected])


def test_an_utterance_is_scored_as_if_it_were_alone(toys):
    decoder, memory = toys.real(5, 8)
    values = (memory.values * memory.mask[..., None]).sum(1, keepdim=True)
    unheard = decoder.prepare(Annotations(values, torch.ones(5, 1, dtype=torch.bool)))
    settings = BeamSettings(size=3)

    def decode(rows: slice) -> list[list[int]]:
        mine, its = (type(each)(*(part[rows] for part in each)) for each in (memory, unheard))
        scorers = [InternalModelScorer(toys.bound(decoder, its), WEIGHT)]
        limits = np.full(len(mine.mask), 9)
        found = beam_search(toys.bound(decoder, mine), limits, settings, scorers)
        return [best.tokens for best, *_ in found]

    together = decode(slice(None))
    assert together == [decode(slice(row, row + 1))[0] for row in range(5)]
    assert len({len(each) for each in together}) > 1  # so that some finish before others


def test_scores_are_bounded_and_leave_the_ending_to_others(toys):
    decoder, memory = toys.real(2, 6)
    bound = toys.bound(decoder, memory)
    scorer = InternalModelScorer(bound, WEIGHT)
    state, its = scorer.start(2), bound.start()
    for last, token in ((EOS, 2), (2, 3)):
        log_probs, _, its = bound.step(np.full((2, 1), last), its)
        scores = scorer.scores(state)
        assert scores.max() <= scorer.bound and scores.min() >= 0
        assert (scores[..., EOS] == 0).all()
        likely = log_probs > -scorer.MOST
        likely[..., [BLANK, EOS]] = False
        np.testing.assert_allclose(scores[likely], -log_probs[likely], rtol=1e-5)
        assert 0 < likely.sum() < likely.size
        parents = np.zeros((2, 1), np.int64)
        state = scorer.advance(state, parents, np.full((2, 1), token), parents == 0)


def test_dead_hypotheses_are_not_computed(toys):
    decoder, memory = toys.real(2, 6)
    scorer = InternalModelScorer(toys.bound(decoder, memory), WEIGHT)
    parents, tokens = np.zeros((2, 3), np.int64), np.array([[2, 3, 4], [5, 6, 7]])
    alive = np.array([[True, False, True], [False, True, False]])
    every = scorer.advance(scorer.start(2), parents, tokens, np.ones((2, 3), bool))
    some = scorer.advance(scorer.start(2), parents, tokens, alive)
    assert len(every.scores) == 6 and len(some.scores) == 3
    np.testing.assert_allclose(scorer.scores(some)[alive], scorer.scores(every)[alive], rtol=1e-5)
