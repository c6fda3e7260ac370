"""Alignment: a known path is found again, and times are in order and inside the audio."""

from itertools import combinations_with_replacement, groupby, pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from asr.alignment.times import (
    ATTENTION_REACH,
    CTC_REACH,
    SHORTEST_PAUSE,
    WORD_LEAD,
    ctc_path,
    monotone_path,
    spans,
    teacher_forced_weights,
    words,
)
from asr.attention import AdditiveAttention, Annotations
from asr.errors import UserError
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings
from asr.runtime.torch_runtime import TorchDecoder
from asr.search import greedy
from asr.text.vocabulary import EOS

BLANK = 0
SIZE = 6  # vocabulary size
SECONDS = 0.08  # duration of an annotation
Path = list[tuple[int, int, int]]  # blanks before, token, duration in frames

paths = st.lists(st.tuples(st.integers(0, 3), st.integers(1, SIZE - 1), st.integers(1, 3)))
seeds = st.integers(0, 2**31)
quick = settings(max_examples=40, deadline=None)


def emit(labels: list[int], random: np.random.Generator) -> NDArray[np.float64]:
    """Log-probabilities (T', V) whose best labelling of frames is `labels`."""
    logits = random.normal(size=(len(labels), SIZE))
    logits[range(len(labels)), labels] += 20
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def labelling(path: Path) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Labels of all frames, tokens, and the frames of each token."""
    labels: list[int] = []
    frames: list[tuple[int, int]] = []
    before = BLANK
    for blanks, token, length in path:
        labels += [BLANK] * (blanks or token == before)  # equal neighbours need a blank
        frames.append((len(labels), len(labels) + length))
        labels += [token] * length
        before = token
    return labels, [token for _, token, _ in path], frames


@quick
@given(paths, st.integers(0, 3), seeds)
def test_a_known_ctc_path_is_found_again(path: Path, after: int, seed: int) -> None:
    labels, tokens, frames = labelling(path)
    labels += [BLANK] * after
    assert ctc_path(emit(labels, np.random.default_rng(seed)), tokens) == frames


@quick
@given(st.lists(st.integers(1, 2), max_size=3), st.integers(1, 5), seeds)
def test_no_ctc_path_is_better(tokens: list[int], length: int, seed: int) -> None:
    scores = torch.randn(length, 3, generator=torch.Generator().manual_seed(seed)).double()
    texts = {}
    for labels in product(range(3), repeat=length):
        collapsed = [label for label, _ in groupby(labels)]
        if [label for label in collapsed if label != BLANK] == tokens:
            texts[labels] = float(scores[range(length), labels].sum())
    if not texts:
        with pytest.raises(UserError, match="CTC frames"):
            ctc_path(scores, tokens)
        return
    best = max(texts, key=texts.__getitem__)
    runs, at = [], 0
    for label, group in groupby(best):
        size = len(list(group))
        if label != BLANK:
            runs.append((at, at + size))
        at += size
    assert ctc_path(scores, tokens) == runs


def test_doubled_letters_need_a_blank_between() -> None:
    sure = emit([1, 1, 1], np.random.default_rng(0))
    assert ctc_path(sure, [1, 1]) == [(0, 1), (2, 3)]
    with pytest.raises(UserError, match="needs 3 CTC frames, the audio has 2"):
        ctc_path(sure[:2], [1, 1])


def test_impossible_frames_and_bad_tokens_are_refused() -> None:
    with pytest.raises(UserError, match="no path"):
        ctc_path(np.full((4, 3), -np.inf), [1, 2])
    for token in (BLANK, SIZE, -1):
        with pytest.raises(ValueError, match="tokens must lie between 1 and 5"):
            ctc_path(np.zeros((4, SIZE)), [1, token])


@quick
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), seeds)
def test_a_known_monotone_path_is_found_again(moves: list[int], seed: int) -> None:
    known = np.cumsum(moves)
    weights = np.random.default_rng(seed).uniform(0, 0.1, (len(known), known[-1] + 3))
    weights[range(len(known)), known] = 1
    assert monotone_path(weights) == known.tolist()


@quick
@given(st.integers(1, 4), st.integers(1, 4), seeds)
def test_no_monotone_path_is_better(steps: int, annotations: int, seed: int) -> None:
    weights = np.random.default_rng(seed).uniform(0.01, 1, (steps, annotations))
    best = max(
        combinations_with_replacement(range(annotations), steps),
        key=lambda path: np.log(weights[range(steps), path]).sum(),
    )
    assert monotone_path(torch.from_numpy(weights)) == list(best)


def test_a_stray_step_does_not_drag_the_path_along() -> None:
    weights = np.eye(8) + 1e-3
    weights[3] = np.eye(8)[7]  # the fourth step attends to the end only
    assert monotone_path(weights) == [0, 1, 2, 2, 4, 5, 6, 7]


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
    assert found[1][1] == found[2][0]  # contiguous
    assert found[3][0] - found[2][1] > 1  # the pause belongs to no word


def test_spans_of_attention_lie_where_it_looked() -> None:
    looked = [2, 3, 3, 5, 40]
    weights = np.full((6, 50), 1e-6)
    weights[range(6), [*looked, 49]] = 1
    weights[1, 2] = 0.4  # the second step is earlier in its annotation than the third
    found = spans([1, 2, 3, 4, 5], torch.from_numpy(weights), None, SECONDS, 4.0)
    for (start, end), annotation in zip(found, looked, strict=True):
        assert annotation * SECONDS <= end and start <= (annotation + 1) * SECONDS
        assert end - start <= ATTENTION_REACH.back + ATTENTION_REACH.ahead + 1e-9
    assert found[1][1] == found[2][0] < 3.5 * SECONDS


def test_attention_takes_over_where_ctc_has_no_path() -> None:
    weights, tokens = np.eye(4), [1, 1, 1, 1]
    scores = np.log(np.full((4, SIZE), 1 / SIZE))
    assert spans(tokens, weights, scores, SECONDS, 1.0) == spans(
        tokens, weights, None, SECONDS, 1.0
    )


def test_nothing_said_has_no_spans() -> None:
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


def test_teacher_forcing_sees_what_greedy_search_saw() -> None:
    torch.manual_seed(3)
    attention = AdditiveAttention(query_size=8, annotation_size=6, attention_size=4)
    decoder = Decoder(attention, SIZE, 6, DecoderSettings(3, 8, 5)).eval()
    memory = decoder.prepare(Annotations(torch.randn(1, 9, 6), torch.ones(1, 9, dtype=torch.bool)))
    (hypothesis,) = greedy(TorchDecoder(decoder, memory), np.array([7]))
    assert hypothesis.tokens and EOS not in hypothesis.tokens
    weights, log_probabilities = teacher_forced_weights(decoder, memory, hypothesis.tokens)
    assert not weights.requires_grad
    torch.testing.assert_close(weights, torch.from_numpy(hypothesis.weights))
    assert log_probabilities.tolist() == pytest.approx(hypothesis.token_log_probabilities, abs=1e-5)
