"""Reading of a page: paths whose visits are known are found again."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_paths import BLANK, emit, quick, seeds

from asr.alignment.page import Penalties, Visit, read_page

SPACE = 1
PAGE = [[2, 3, 2], [4, 5], [3, 3], [5, 2, 4], [2, 5, 5, 3], [4, 3, 5]]
RANDOM = np.random.default_rng(1)


def spoken(words: list[list[int]]) -> list[int]:
    """Labels of the frames of words, with spaces between; equal symbols have a blank between."""
    labels = [BLANK]
    for word in words:
        for before, symbol in pairwise([BLANK, *word]):
            labels += [BLANK] * (before == symbol) + [symbol, symbol]
        labels += [SPACE, BLANK]
    return labels


def visits(words: list[list[int]], page: list[list[int]] = PAGE) -> list[Visit]:
    return read_page(emit(spoken(words), RANDOM), page, SPACE)


def order(words: list[list[int]]) -> list[int | None]:
    return [visit.word for visit in visits(words)]


@given(seeds)
@quick
def test_a_page_read_as_it_stands_is_found_with_its_frames(seed: int) -> None:
    random = np.random.default_rng(seed)
    page = [random.integers(2, 6, random.integers(1, 5)).tolist() for _ in range(5)]
    found = read_page(emit(spoken(page), random), page, SPACE)
    assert [visit.word for visit in found] == list(range(5))
    start = 1
    for visit, word in zip(found, page, strict=True):
        length = len(spoken([word])) - 3
        assert (visit.start, visit.stop) == (start, start + length)
        assert visit.margin == 0
        start += length + 2


@given(st.integers(0, 5), st.integers(1, 5))
@quick
def test_skipped_words_are_left_out(first: int, count: int) -> None:
    rest = [index for index in range(6) if not first <= index < first + count]
    assert order([PAGE[index] for index in rest]) == rest


@given(st.integers(0, 5), st.integers(1, 3))
@quick
def test_repeated_words_are_visited_twice(last: int, count: int) -> None:
    again = list(range(max(0, last - count + 1), last + 1))
    said = [*range(last + 1), *again, *range(last + 1, 6)]
    assert order([PAGE[index] for index in said]) == said


def test_other_words_are_other_speech_in_their_frames() -> None:
    other = [4, 2, 5, 2]
    (before, between, *_) = visits([PAGE[0], other, *PAGE[1:]])
    assert (before.word, between.word) == (0, None)
    labels = spoken([PAGE[0], other, *PAGE[1:]])
    first = len(spoken([PAGE[0]]))
    assert labels[between.start : between.stop][: 2 * len(other)] == labels[first : first + 8]
    assert order([PAGE[0], other, *PAGE[2:]]) == [0, None, 2, 3, 4, 5]


def test_a_word_that_was_almost_said_is_kept_with_its_margin() -> None:
    log_probs = emit(spoken(PAGE), RANDOM)
    (frame, _) = np.flatnonzero(log_probs[:, 4].round() == 0)[:2]
    log_probs[[frame, frame + 1], 4] = -1.0
    log_probs[[frame, frame + 1], 2] = -0.5
    (kept,) = [visit for visit in read_page(log_probs, PAGE, SPACE) if visit.word == 1]
    assert kept.margin == pytest.approx(-1.0)


def test_penalties_decide_between_returning_and_other_speech() -> None:
    log_probs = emit(spoken([*PAGE[:2], PAGE[1], *PAGE[2:]]), RANDOM)
    found = read_page(log_probs, PAGE, SPACE, Penalties(back=50))
    assert sorted(-1 if visit.word is None else visit.word for visit in found) == [-1, *range(6)]


def test_no_frames_have_no_words() -> None:
    assert read_page(np.zeros((0, 6)), PAGE, SPACE) == []


@pytest.mark.parametrize("page", [[], [[2], []], [[2, BLANK]]])
def test_a_page_without_words_is_refused(page: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="a page needs words"):
        read_page(np.zeros((3, 6)), page, SPACE)
