"""The repetition guard: loops end, and real repetitions are kept."""

import numpy as np
import pytest

from asr.errors import UserError
from asr.search import BeamSettings, RepeatGuard, beam_search, greedy

OFF = RepeatGuard(sitting=0)


def search(toys, script, guard, limit=60):
    memory = toys.scripted_memory(script)
    return greedy(toys.bound(toys.ScriptedDecoder(), memory), np.array([limit]), guard)[0]


def copies(text, count, places_a_copy):
    """Return `count` copies of a text; attention moves by `places_a_copy` with each."""
    tokens = [7, 8, 9, *text * count]
    return [
        (token, min(place, 3) + max(place - 3, 0) * places_a_copy // len(text))
        for place, token in enumerate(tokens)
    ]


@pytest.mark.parametrize("text", [[3], [3, 4], [3, 4, 3, 5, 6, 6]])
@pytest.mark.parametrize("places_a_copy", [0, 3])
def test_copies_are_cut_to_one_sooner_when_attention_stands(toys, text, places_a_copy):
    borne = OFF.moving_repeats if places_a_copy else OFF.standing_repeats
    said = search(toys, copies(text, borne - 1, places_a_copy), OFF, limit=90)
    assert said.stop_reason == "eos"
    assert said.tokens == [7, 8, 9, *text * (borne - 1)]
    cut = search(toys, copies(text, borne, places_a_copy), OFF, limit=90)
    assert cut.stop_reason == "repeat"
    assert cut.tokens == [7, 8, 9, *text]
    assert len(cut.weights) == len(cut.token_log_probabilities) == len(cut.tokens) + 1


def test_attention_that_jumps_back_counts_as_standing(toys):
    text = [3, 4, 5, 6, 7]
    back = [20, 14, 14, 3]  # first attended position of each copy
    script = [(token, start + place) for start in back for place, token in enumerate(text)]
    assert search(toys, script, OFF).tokens == text


def test_text_that_only_partly_repeats_is_left(toys):
    text = [3, 4, 5, 3, 4, 6, 3, 4, 7, 3, 4, 8, 3, 4, 9]
    said = search(toys, [(token, 0) for token in text], OFF)
    assert said.tokens == text and said.stop_reason == "eos"


def test_attention_that_sits_ends_a_text(toys):
    # No square-free text over two letters is long, but one over three is: nothing repeats here.
    text = [3 + (bin(place & place >> 1).count("1") + place % 3) % 7 for place in range(30)]
    script = [(token, 4) for token in text]
    sat = search(toys, script, RepeatGuard(sitting=10, longest_period=1))
    assert sat.stop_reason == "repeat" and sat.tokens == text[:1]
    assert search(toys, script, RepeatGuard(sitting=0, longest_period=1)).tokens == text


@pytest.mark.parametrize("size", [2, 5])
def test_beam_prefers_texts_that_end(toys, size):
    memory = toys.scripted_memory(copies([3, 4], 9, 0))
    settings = BeamSettings(size=size, guard=OFF, end_threshold=None)
    found = beam_search(
        toys.bound(toys.ScriptedDecoder(), memory), np.array([60]), settings, best=60
    )[0]
    reasons = [each.stop_reason for each in found]
    assert reasons[0] == "eos" and "repeat" in reasons
    assert reasons == sorted(reasons)  # "eos" before "repeat", although the loop has a better score
    assert found[0].score < max(each.score for each in found)


def test_every_hypothesis_of_a_beam_is_watched(toys):
    strict = RepeatGuard(longest_period=3, standing_repeats=2, moving_repeats=3, sitting=3)
    decoder, memory = toys.real(6, 12, seed=1)
    settings = BeamSettings(size=6, guard=strict, end_threshold=None)
    found = beam_search(toys.bound(decoder, memory), np.full(6, 30), settings, best=40)
    reasons = [each.stop_reason for hypotheses in found for each in hypotheses]
    assert {"eos", "repeat"} <= set(reasons)
    for hypothesis in (each for hypotheses in found for each in hypotheses):
        state = strict.start(1)
        for token, weights in zip(hypothesis.tokens, hypothesis.weights, strict=False):
            state, excess = strict.advance(
                state, np.array([[token]]), np.array([[weights.argmax()]])
            )
            assert not excess.any()


def test_no_guard_goes_on_to_the_limit(toys):
    found = search(toys, [(3, 0)] * 60, None, limit=50)
    assert found.tokens == [3] * 50 and found.stop_reason == "length"


@pytest.mark.parametrize(
    "wrong", [{"longest_period": 0}, {"standing_repeats": 1}, {"moving_repeats": 1}]
)
def test_senseless_settings_are_refused(wrong):
    with pytest.raises(UserError):
        RepeatGuard(**wrong)
