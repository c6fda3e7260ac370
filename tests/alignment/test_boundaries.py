"""Moved word boundaries stay in order, around the middles of the words, with their characters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.alignment.boundaries import SHORTEST_WORD, move_boundaries, word_boundaries
from asr.results import Span
from asr.text.vocabulary import BLANK, Vocabulary

CHARACTERS = Vocabulary.characters()
SECONDS = 9.0
LARGEST = 15  # frames
lengths = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), min_size=1, max_size=8)


def spoken(lengths: list[tuple[int, int]]) -> tuple[list[Span], list[Span]]:
    """Characters and words of two letters: a pause before each and its length, in frames."""
    characters, words, at = [], [], 0
    for pause, length in lengths:
        start, middle, end = at + pause, at + pause + length / 2, at + pause + length
        if words:
            characters.append(Span(" ", at / 100, start / 100))
        characters += [Span("a", start / 100, middle / 100), Span("b", middle / 100, end / 100)]
        words.append(Span("ab", start / 100, end / 100, 0.7))
        at = end
    return characters, words


def moved(
    offsets: list[int], characters: list[Span], words: list[Span]
) -> tuple[list[Span], list[Span]]:
    """Move each start and end by an offset, in frames."""
    times = np.array([time for word in words for time in (word.start, word.end)])
    return move_boundaries(characters, words, times + np.array(offsets) / 100, SECONDS)


def test_boundaries_move_to_the_given_times():
    characters, words = spoken([(20, 40), (30, 50)])
    characters, words = moved([5, -7, 0, 12], characters, words)
    times = [(word.start, word.end) for word in words]
    assert np.allclose(times, [(0.25, 0.53), (0.90, 1.52)])
    assert [word.confidence for word in words] == [0.7, 0.7]
    assert np.allclose(
        [(each.start, each.end) for each in characters[:3]],
        [(0.25, 0.39), (0.39, 0.53), (0.53, 0.90)],
    )


def test_words_that_overlap_meet_in_the_middle_and_a_short_pause_stays():
    _, words = moved([0, 4, -6, 0, 1, 0], *spoken([(20, 40), (0, 50), (0, 30)]))
    times = [(word.start, word.end) for word in words]
    assert np.allclose(times, [(0.2, 0.59), (0.59, 1.1), (1.11, 1.4)])


def test_a_word_that_would_vanish_is_short_and_a_word_may_move_away():
    _, words = moved([9, -9, 0, 0], *spoken([(20, 10), (10, 20)]))
    assert np.allclose([words[0].start, words[0].end], [0.24, 0.26])
    _, words = moved([-20, -20, 0, 0], *spoken([(20, 10), (10, 20)]))
    assert np.allclose([words[0].start, words[0].end], [0.0, 0.1])


@given(lengths, st.data())
def test_words_stay_in_order_and_characters_in_them(lengths, data):
    before, words = spoken(lengths)
    offsets = data.draw(
        st.lists(st.integers(-LARGEST, LARGEST), min_size=2 * len(words), max_size=2 * len(words))
    )
    characters, after = moved(offsets, before, words)
    times = np.array([(word.start, word.end) for word in after])
    assert times.min() >= 0 and times.max() <= SECONDS
    assert (np.diff(times.ravel()) >= -1e-9).all()
    assert (times[:, 1] - times[:, 0] >= SHORTEST_WORD - 1e-9).all()
    assert [each.text for each in characters] == [each.text for each in before]
    edges = np.array([(each.start, each.end) for each in characters])
    assert np.allclose(edges[1:, 0], edges[:-1, 1])  # here characters are adjacent
    assert np.allclose(edges[::3, 0], times[:, 0]) and np.allclose(edges[1::3, 1], times[:, 1])


def test_spaces_around_the_text_stay_outside_the_words():
    characters, words = spoken([(20, 40)])
    characters = [Span(" ", 0.1, 0.2), *characters, Span(" ", 0.6, 0.7)]
    characters, _ = moved([-15, 15], characters, words)
    assert np.allclose([characters[0].start, characters[0].end], [0.05, 0.05])
    assert np.allclose([characters[-1].start, characters[-1].end], [0.75, 0.75])


def test_a_text_without_words_keeps_its_times():
    space = Span(" ", 0.1, 0.2)
    assert move_boundaries([space], [], np.zeros(0), SECONDS) == ([space], [])
    nothing = word_boundaries([], CHARACTERS, 2)
    assert [len(each) for each in nothing] == [0, 0, 0] and nothing.characters.shape == (0, 4)


def test_the_number_of_times_must_fit_the_words():
    with pytest.raises(ValueError, match="2 words need two times each"):
        move_boundaries(*spoken([(20, 40), (30, 50)]), np.zeros(2), SECONDS)


def test_a_boundary_has_the_characters_on_both_sides():
    words = [Span("old", 0.101, 0.3), Span("i", 0.3, 0.4), Span("ax", 0.5, 0.6)]
    found = word_boundaries(words, CHARACTERS, 2)
    assert found.times.tolist() == [0.101, 0.3, 0.3, 0.4, 0.5, 0.6]
    assert found.is_end.tolist() == [False, True] * 3
    nothing = "\0"
    spelt = ["\0\0ol", "ldi\0", "ldi\0", "\0iax", "\0iax", "ax\0\0"]
    wanted = [[BLANK if c == nothing else CHARACTERS.encode(c)[0] for c in each] for each in spelt]
    assert found.characters.tolist() == wanted
    one = word_boundaries(words[:1], CHARACTERS, 1)
    assert one.characters.tolist() == [
        [BLANK, *CHARACTERS.encode("o")],
        [*CHARACTERS.encode("d"), BLANK],
    ]
