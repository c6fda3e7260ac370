"""A known path is found again, and no other path is better."""

from itertools import combinations_with_replacement, groupby, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_paths import BLANK, SIZE, Path, emit, labelling, paths, quick, seeds

from asr.alignment.paths import ctc_path, monotone_path
from asr.errors import UserError


@quick
@given(paths, st.integers(0, 3), seeds)
def test_a_known_ctc_path_is_found_again(path: Path, after: int, seed: int) -> None:
    labels, tokens, frames = labelling(path)
    labels += [BLANK] * after
    assert ctc_path(emit(labels, np.random.default_rng(seed)), tokens) == frames


@quick
@given(st.lists(st.integers(1, 2), max_size=3), st.integers(1, 5), seeds)
def test_no_ctc_path_is_better(tokens: list[int], length: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(length, 3))
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
    assert monotone_path(weights) == list(best)


def test_an_outlying_step_does_not_displace_its_neighbours() -> None:
    weights = np.eye(8) + 1e-3
    weights[3] = np.eye(8)[7]  # all weight of the fourth step is at the end
    assert monotone_path(weights) == [0, 1, 2, 2, 4, 5, 6, 7]
