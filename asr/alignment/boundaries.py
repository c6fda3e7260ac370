"""Word boundaries as the input of a boundary model, and words moved to the times it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import Character, Span, Word
from asr.text.vocabulary import BLANK, Vocabulary

SHORTEST_WORD: Final = 0.02  # seconds

Floats = NDArray[np.float64]


class WordBoundaries(NamedTuple):
    """The N = 2 W boundaries of W words: start, end, start, end, …

    times: (N,) approximate, in seconds. characters: (N, 2 C) ids, C before and C after each; the
    blank where the neighbouring word is shorter or missing. is_end: (N,) bool.
    """

    times: Floats
    characters: NDArray[np.int64]
    is_end: NDArray[np.bool_]


def word_boundaries(words: Sequence[Span], vocabulary: Vocabulary, context: int) -> WordBoundaries:
    """Return the boundaries of words; context: C, number of characters on either side."""
    spelt = [[], *(vocabulary.encode(word.text) for word in words), []]
    characters = []
    for before, word, after in zip(spelt, spelt[1:], spelt[2:], strict=False):
        characters += [
            _last(before, context) + _first(word, context),
            _last(word, context) + _first(after, context),
        ]
    return WordBoundaries(
        times=np.array([time for word in words for time in (word.start, word.end)], np.float64),
        characters=np.array(characters, np.int64).reshape(-1, 2 * context),
        is_end=np.arange(2 * len(words)) % 2 == 1,
    )


def move_boundaries(
    characters: Sequence[Character], words: Sequence[Word], times: Floats, duration: float
) -> tuple[list[Character], list[Word]]:
    """Return characters and words with new boundary times, in order, without overlap.

    The characters of a word are rescaled to its new boundaries. Times in the wrong order are
    changed as little as possible; a word lasts at least `SHORTEST_WORD`.

    times: (2 W,) in seconds, in the order of `WordBoundaries`. duration: of the audio, in seconds.
    Raises:
        ValueError: not two times per word.
    """
    if times.shape != (2 * len(words),):
        raise ValueError(f"{len(words)} words need two times each, got {times.shape}")
    if not words:
        return list(characters), []
    edges = _ordered(times, duration).reshape(-1, 2)
    moved = [
        word._replace(start=start, end=end)
        for word, (start, end) in zip(words, edges.tolist(), strict=True)
    ]
    return _rescaled(characters, moved), moved


def _last(ids: list[int], count: int) -> list[int]:
    return [*[BLANK] * count, *ids][-count:]


def _first(ids: list[int], count: int) -> list[int]:
    return [*ids, *[BLANK] * count][:count]


def _ordered(times: Floats, duration: float) -> Floats:
    """Return starts and ends (2 W,) in order, in [0, duration]; see `move_boundaries`."""
    shortest = min(SHORTEST_WORD, 2 * duration / len(times))
    before = shortest * ((np.arange(len(times)) + 1) // 2)  # least time of the words before each
    return _isotonic((times - before).clip(0, duration - before[-1])) + before


def _isotonic(values: Floats) -> Floats:
    """Return the nearest values (N,) that do not fall, by least squares.

    Neighbours in the wrong order become their mean ("pool adjacent violators", Ayer et al. 1955).
    """
    pools: list[tuple[float, int]] = []  # mean, number of values
    for value in values.tolist():
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, count = (size * other + count * mean) / (size + count), size + count
        pools.append((mean, count))
    means, counts = zip(*pools, strict=True)
    return np.repeat(np.array(means), counts)


def _rescaled(characters: Sequence[Character], words: Sequence[Word]) -> list[Character]:
    """Rescale the characters of each word to its new times; spaces fill the gaps between words."""
    runs = [list(run) for _, run in groupby(characters, lambda each: each.text.isspace())]
    remaining = iter(words)
    intervals = [  # new times of a word; old times of a space, kept at the ends of the text
        (run[0].start, run[-1].end) if run[0].text.isspace() else next(remaining)[1:3]
        for run in runs
    ]
    moved: list[Character] = []
    for at, run in enumerate(runs):
        start, end = intervals[at]
        if run[0].text.isspace():
            start = intervals[at - 1][1] if at else min(start, intervals[1][0])
            end = intervals[at + 1][0] if at + 1 < len(intervals) else max(start, end)
        moved += _stretched(run, start, end)
    return moved


def _stretched(run: Sequence[Character], start: float, end: float) -> list[Character]:
    """Rescale adjacent characters to [start, end]; a run of length 0 is divided evenly."""
    times = np.array([(each.start, each.end) for each in run])
    first, last = times[0, 0], times[-1, 1]
    if last > first:
        shares = (times - first) / (last - first)
    else:
        shares = (np.arange(len(run))[:, None] + np.array([0, 1])) / len(run)
    return [
        each._replace(start=low, end=high)
        for each, (low, high) in zip(run, (start + shares * (end - start)).tolist(), strict=True)
    ]
