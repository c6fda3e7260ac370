"""Times of characters and words are in order, inside the audio, and around their paths."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_paths import SIZE, Path, emit, labelling, paths, quick, seeds

from asr.alignment.spans import (
    ATTENTION_REACH,
    CTC_REACH,
    SHORTEST_PAUSE,
    WORD_LEAD,
    spans,
    words,
)

SECONDS = 0.08  # an annotation


@quick
@given(paths.filter(bool), seeds, st.booleans(), st.floats(0.01, 3))
def test_spans_are_in_order_and_inside(
    path: Path, seed: int, has_ctc: bool, duration: float
) -> None:
    random = np.random.default_rng(seed)
    labels, tokens, _ = labelling(path)
    weights = random.dirichlet(np.ones(12) * 0.1, len(tokens))
    found = spans(tokens, weights, emit(labels, random) if has_ctc else None, SECONDS, duration)
    edges = [edge for span in found for edge in span]
    assert len(found) == len(tokens)
    assert edges == sorted(edges)
    assert edges[0] >= 0 and edges[-1] <= duration


def test_spans_of_ctc_hold_their_frames() -> None:
    path = [(4, 1, 1), (8, 2, 2), (0, 3, 1), (40, 4, 1)]
    labels, tokens, frames = labelling(path)
    scores = emit(labels, np.random.default_rng(0))
    annotations = (len(labels) + 1) // 2
    seconds = SECONDS * annotations / len(labels)
    found = spans(tokens, np.ones((4, annotations)), scores, SECONDS, 10)
    for (start, end), (first, stop) in zip(found, frames, strict=True):
        assert start <= first * seconds < stop * seconds <= end
        assert end - start <= (stop - first) * seconds + CTC_REACH.back + CTC_REACH.ahead + 1e-9
    assert found[1][1] == found[2][0]  # neighbours meet
    assert found[3][0] - found[2][1] > 1  # a long pause belongs to no token


def test_spans_of_attention_hold_its_peaks() -> None:
    peaks = [2, 3, 3, 5, 40]
    weights = np.full((6, 50), 1e-6)
    weights[range(6), [*peaks, 49]] = 1
    weights[1, 2] = 0.4  # the second step is earlier in its annotation than the third
    found = spans([1, 2, 3, 4, 5], weights, None, SECONDS, 4.0)
    for (start, end), annotation in zip(found, peaks, strict=True):
        assert annotation * SECONDS <= end and start <= (annotation + 1) * SECONDS
        assert end - start <= ATTENTION_REACH.back + ATTENTION_REACH.ahead + 1e-9
    assert found[1][1] == found[2][0] < 3.5 * SECONDS


def test_attention_gives_the_times_where_ctc_has_no_path() -> None:
    weights, tokens = np.eye(4), [1, 1, 1, 1]
    scores = np.log(np.full((4, SIZE), 1 / SIZE))
    assert spans(tokens, weights, scores, SECONDS, 1.0) == spans(
        tokens, weights, None, SECONDS, 1.0
    )


def test_an_empty_text_has_no_spans() -> None:
    assert spans([], np.zeros((0, 5)), np.zeros((10, SIZE)), SECONDS, 0.4) == []
    assert spans([], np.ones((1, 5)), None, SECONDS, 0.4) == []
    assert words("", [], []) == []


def test_weights_of_another_text_are_refused() -> None:
    with pytest.raises(ValueError, match="for 3 tokens, got \\(5, 4\\)"):
        spans([1, 2, 3], np.ones((5, 4)), None, SECONDS, 1.0)


def test_words() -> None:
    text = " ab  c "
    times = [(at / 10, at / 10 + 0.1) for at in range(len(text))]
    first, second = words(text, times, [-9, -1, -3, -9, -9, 1e-7, -9])  # rounded above 0
    assert (first.text, first.start, first.end) == ("ab", 0.1 - WORD_LEAD, pytest.approx(0.3))
    assert first.confidence == pytest.approx(np.exp(-2))
    assert (second.text, second.confidence) == ("c", 1.0)
    with pytest.raises(ValueError, match="7 characters"):
        words(text, times, [0.0])


def test_a_word_takes_no_more_than_the_space_before_it() -> None:
    times = [(0.01, 0.1), (0.1, 0.1), (0.1, 0.2)]
    first, second = words("a b", times, [0.0] * 3)
    assert (first.start, first.end, second.start) == (0.0, 0.1, 0.1)


def test_words_touch_where_there_is_no_pause() -> None:
    times = [(0.0, 0.1), (0.1, 0.1 + SHORTEST_PAUSE), (0.1 + SHORTEST_PAUSE, 0.3)]
    first, second = words("a b", times, [0.0] * 3)
    assert first.end == second.start == pytest.approx(0.1 + SHORTEST_PAUSE - WORD_LEAD)
    times[1:] = [(0.1, 0.101 + SHORTEST_PAUSE + WORD_LEAD)] * 2
    first, second = words("a b", times, [0.0] * 3)
    assert first.end == 0.1


@quick
@given(st.text(alphabet="ab '"), seeds)
def test_words_hold_the_text_in_order(text: str, seed: int) -> None:
    edges = np.sort(np.random.default_rng(seed).uniform(0, 9, 2 * len(text)))
    found = words(list(text), [(a, b) for a, b in edges.reshape(-1, 2)], [-0.5] * len(text))
    assert [word.text for word in found] == text.split()
    assert all(word.start <= word.end for word in found)
    assert all(before.end <= word.start for before, word in pairwise(found))
