"""What a decoder says of itself, taken off: brute force, and one utterance as among others."""

import math

import pytest
import torch

from asr.attention import Annotations
from asr.search import BeamSettings, beam_search
from asr.search.internal_model import InternalModelScorer
from asr.text.vocabulary import EOS

SIZE, LIMIT = 5, 3  # vocabulary with blank and end-of-sentence, longest text
WEIGHT = 0.4


def test_a_wide_beam_with_it_is_brute_force(toys):
    heard, unheard = (toys.table_memory(2, SIZE, LIMIT, seed) for seed in (1, 2))
    unheard = unheard._replace(values=3 * unheard.values)  # so that some are past the most
    settings = BeamSettings(
        size=(SIZE - 1) ** LIMIT,
        end_threshold=None,
        width=math.inf,
        guard=None,
        length_bonus=WEIGHT * InternalModelScorer.MOST,
    )
    decoder = toys.TableDecoder()
    scorer = InternalModelScorer(decoder, unheard, WEIGHT)
    found = beam_search(decoder, heard, torch.tensor([LIMIT] * 2), settings, [scorer], best=5)
    for row, each in enumerate(found):
        internal = toys.all_texts(unheard.values[row], LIMIT)
        assert min(min(summands) for summands in internal.values()) < -InternalModelScorer.MOST
        totals = {}
        for text, summands in toys.all_texts(heard.values[row], LIMIT).items():
            off = [min(-one, InternalModelScorer.MOST) for one in internal[text][:-1]]  # no end
            totals[text] = sum(summands) + WEIGHT * (sum(off) - InternalModelScorer.MOST)
        expected = sorted(totals.items(), key=lambda item: -item[1])[:5]
        assert [tuple(one.tokens) for one in each] == [text for text, _ in expected]
        assert [one.score for one in each] == pytest.approx([sum_ for _, sum_ in expected])


def test_an_utterance_is_scored_as_if_it_were_alone(toys):
    decoder, memory = toys.real(5, 8)
    values = (memory.values * memory.mask[..., None]).sum(1, keepdim=True)
    unheard = decoder.prepare(Annotations(values, torch.ones(5, 1, dtype=torch.bool)))
    settings = BeamSettings(size=3, length_bonus=WEIGHT * InternalModelScorer.MOST)

    def decode(rows: slice) -> list[list[int]]:
        mine, its = (type(each)(*(part[rows] for part in each)) for each in (memory, unheard))
        scorers = [InternalModelScorer(decoder, its, WEIGHT)]
        limits = torch.full((len(mine.mask),), 9)
        return [best.tokens for best, *_ in beam_search(decoder, mine, limits, settings, scorers)]

    together = decode(slice(None))
    assert together == [decode(slice(row, row + 1))[0] for row in range(5)]
    assert len({len(each) for each in together}) > 1  # so that some were dropped before others


def test_scores_are_never_above_0_and_do_not_tell_where_to_end(toys):
    decoder, memory = toys.real(2, 6)
    scorer = InternalModelScorer(decoder, memory, WEIGHT)
    state = scorer.start(2)
    for token in (2, 3):
        scores = scorer.scores(state)
        assert scores.max() <= 0 and scores.min() >= -scorer.MOST
        assert (scores[..., EOS] == -scorer.MOST).all()
        likely = state.log_probs > -scorer.MOST
        likely[..., EOS] = False
        assert torch.allclose(scores[likely], -state.log_probs[likely] - scorer.MOST)
        assert 0 < likely.sum() < likely.numel()
        state = scorer.advance(state, torch.zeros(2, 1).long(), torch.full((2, 1), token))
