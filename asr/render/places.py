"""Positions of labels in a figure, without overlap: numbers only, no drawing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_CHARACTERS: Final = 60  # with more characters, rows are labelled with words

# Shown in place of invisible symbols.
SIGNS: Final = {" ": "\N{OPEN BOX}", "<eos>": "\N{RETURN SYMBOL}", "\n": "\N{RETURN SYMBOL}"}


class Label(NamedTuple):
    """A text and its position on an axis, in the units of the axis."""

    text: str
    place: float


def visible(symbol: str) -> str:
    """Return a visible sign for a space or end-of-sentence, other symbols unchanged."""
    return SIGNS.get(symbol, symbol)


def row_labels(labels: Sequence[str]) -> list[Label]:
    """Label the middle of each row; with too many characters, the middle of each word."""
    if len(labels) <= MOST_CHARACTERS or " " not in labels:
        return [Label(visible(text), at + 0.5) for at, text in enumerate(labels)]
    found = []
    for sign, group in groupby(enumerate(labels), lambda pair: SIGNS.get(pair[1])):
        at, texts = zip(*group, strict=True)
        if sign != SIGNS[" "]:
            found.append(Label(sign or "".join(texts), (at[0] + at[-1] + 1) / 2))
    return found


def assign_lanes(middles: Sequence[float], sizes: Sequence[float], gap: float) -> list[int]:
    """Return the first lane for each text, in order, in which it does not overlap another."""
    ends: list[float] = []  # end of the last text in each lane
    chosen = []
    for middle, size in zip(middles, sizes, strict=True):
        start = middle - size / 2
        lane = next((i for i, end in enumerate(ends) if end + gap <= start), len(ends))
        ends[lane : lane + 1] = [middle + size / 2]
        chosen.append(lane)
    return chosen


def move_apart(places: NDArray[np.float64], gap: float, size: float) -> NDArray[np.float64]:
    """Move positions (N,), in order, as little as possible until they are `gap` apart in [0, size].

    Overlapping positions move as a group around their mean. If N gaps exceed size, positions are
    spaced evenly.
    """
    gap = min(gap, size / len(places))
    steps = gap * np.arange(len(places))
    means = _isotonic(places - steps)
    apart: NDArray[np.float64] = np.clip(means, gap / 2, size - gap / 2 - steps[-1]) + steps
    return apart


def _isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the non-decreasing values (N,) nearest to the given ones, in least squares.

    Source: pool adjacent violators, Ayer et al. 1955.
    """
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            mean, size = means.pop(), sizes.pop()
            means[-1] = (means[-1] * sizes[-1] + mean * size) / (sizes[-1] + size)
            sizes[-1] += size
    return np.repeat(means, sizes)


def outlines(allowed: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Return closed lines (P, 2) of columns and rows around the allowed region (U, T).

    One line for each run of rows with allowed columns; it encloses all columns from the first to
    the last allowed one of each row.
    """
    found = []
    rows = np.flatnonzero(allowed.any(1))
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if not len(run):
            continue
        starts = allowed[run].argmax(1)
        stops = allowed.shape[1] - allowed[run, ::-1].argmax(1)
        down = np.stack([np.repeat(stops, 2), np.repeat([*run, run[-1] + 1], 2)[1:-1]], axis=1)
        up = np.stack([np.repeat(starts, 2), down[:, 1]], axis=1)[::-1]
        found.append(np.concatenate([down, up, down[:1]]).astype(np.float64))
    return found
