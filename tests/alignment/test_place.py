"""The place on a page, frame by frame: what is read next is found when it is read."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_paths import BLANK, emit, quick, seeds

from asr.alignment.page import PageSearch, Penalties, read_page
from asr.alignment.place import Place, follow, locate, word_scores

SPACE = 1
PAGE = [[2, 3, 2], [4, 5, 2], [3, 4, 3], [5, 2, 4], [2, 5, 4, 3], [4, 3, 5]]
PARTS = [0, 0, 1, 1, 2, 2]
SEARCH = PageSearch.of(PAGE, SPACE)


def spoken(words: list[int]) -> list[int]:
    """Labels of the frames of words of the page; a word takes 8 frames or 10."""
    labels = [BLANK]
    for word in words:
        labels += [symbol for symbol in PAGE[word] for _ in range(2)] + [SPACE, BLANK]
    return labels


def frames(words: list[int], seed: int) -> np.ndarray:
    return emit(spoken(words), np.random.default_rng(seed))


def place_after(log_probs: np.ndarray, before: Place | None = None) -> Place | None:
    return locate(word_scores(SEARCH, follow(SEARCH, SEARCH.begin(), log_probs)), PARTS, before)


@given(seeds, st.lists(st.integers(1, 7), min_size=1, max_size=9))
@quick
def test_the_state_does_not_depend_on_how_the_frames_are_divided(
    seed: int, sizes: list[int]
) -> None:
    log_probs = frames([0, 1, 2, 4], seed)
    whole = follow(SEARCH, SEARCH.begin(), log_probs)
    state = SEARCH.begin()
    for part in np.split(log_probs, [*accumulate(sizes)]):
        state = follow(SEARCH, state, part)
    for one, other in zip(state, whole, strict=True):
        np.testing.assert_array_equal(one, other)


@given(seeds)
@quick
def test_the_best_score_is_that_of_the_search_over_the_whole_page(seed: int) -> None:
    """The last word is the one with which the path of `read_page` ends, if no word is missing."""
    log_probs = frames([0, 1, 2, 3, 4, 5], seed)
    assert read_page(log_probs, PAGE, SPACE)[-1].word == 5
    assert place_after(log_probs) == Place(5, 2)


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ([0], 0),
        ([0, 1, 2], 2),
        ([0, 1, 0], 0),
        ([0, 1, 2, 3, 0, 1], 1),
        ([0, 1, 4, 5], 5),
        ([4, 5], 5),
    ],
)
def test_readers_may_repeat_return_and_skip(words: list[int], last: int) -> None:
    for seed in range(5):
        assert place_after(frames(words, seed)) == Place(last, PARTS[last])


def test_the_place_moves_on_with_each_word() -> None:
    log_probs = frames([0, 1, 2, 3], 1)
    ends = [1 + 8 * count - 4 for count in (1, 2, 3, 4)]  # after two symbols of each word
    found = [place_after(log_probs[:end]) for end in ends]
    assert [place.word for place in found if place] == [0, 1, 2, 3]


def test_nothing_is_found_before_a_word_is_begun() -> None:
    assert place_after(emit([BLANK] * 10, np.random.default_rng(1))) is None
    before = Place(3, 1)
    assert place_after(emit([BLANK] * 10, np.random.default_rng(1)), before) == before


def test_a_jump_needs_a_lead() -> None:
    scores = np.array([-99.0, -9, -5, -9, -9, -3.0, -9])  # of nothing, then of each word
    assert locate(scores, PARTS, Place(0, 0), lead=1.9) == Place(4, 2)
    assert locate(scores, PARTS, Place(0, 0), lead=2.1) == Place(1, 0)
    assert locate(scores, PARTS, Place(2, 1), lead=99) == Place(4, 2)  # the next part
    assert locate(scores, PARTS, None, lead=2.1) is None


def test_costs_of_jumps_are_those_given() -> None:
    log_probs = frames([0, 1, 4, 5], 2)
    dear = PageSearch.of(PAGE, SPACE, Penalties(skip=200.0, other=200.0))
    scores = word_scores(dear, follow(dear, dear.begin(), log_probs))
    assert scores.argmax() - 1 != 5
