"""CTC log-probabilities of a known labelling, for tests of paths and of spans."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

BLANK = 0
SIZE = 6  # of the vocabulary
Path = list[tuple[int, int, int]]  # blanks before, token, frames it lasts

paths = st.lists(st.tuples(st.integers(0, 3), st.integers(1, SIZE - 1), st.integers(1, 3)))
seeds = st.integers(0, 2**31)
quick = settings(max_examples=40, deadline=None)


def emit(labels: list[int], random: np.random.Generator) -> NDArray[np.float64]:
    """Log-probabilities (T', V) under which `labels` is by far the best labelling."""
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
