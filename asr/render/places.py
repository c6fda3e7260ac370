"""Where the texts of a picture go, so that none lies on another: numbers only, no drawing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_CHARACTERS: Final = 60  # rows above which words are written beside them, not characters

# What is written for symbols that cannot be seen.
SIGNS: Final = {" ": "\N{OPEN BOX}", "<eos>": "\N{RETURN SYMBOL}", "\n": "\N{RETURN SYMBOL}"}


class Label(NamedTuple):
    """A text and its place on an axis, in the units of the axis."""

    text: str
    place: float


def visible(symbol: str) -> str:
    """Return what to write for a symbol of a text, end-of-sentence and spaces included."""
    return SIGNS.get(symbol, symbol)


def row_labels(labels: Sequence[str]) -> list[Label]:
    """Put a text to each row's middle; to each word's, where there are too many characters."""
    if len(labels) <= MOST_CHARACTERS or " " not in labels:
        return [Label(visible(text), at + 0.5) for at, text in enumerate(labels)]
    found = []
    for sign, group in groupby(enumerate(labels), lambda pair: SIGNS.get(pair[1])):
        at, texts = zip(*group, strict=True)
        if sign != SIGNS[" "]:
            found.append(Label(sign or "".join(texts), (at[0] + at[-1] + 1) / 2))
    return found


def assign_lanes(middles: Sequence[float], sizes: Sequence[float], gap: float) -> list[int]:
    """Return the first lane for each text, in order, in which it does not touch the one before."""
    ends: list[float] = []  # of the last text in each lane
    chosen = []
    for middle, size in zip(middles, sizes, strict=True):
        start = middle - size / 2
        lane = next((i for i, end in enumerate(ends) if end + gap <= start), len(ends))
        ends[lane : lane + 1] = [middle + size / 2]
        chosen.append(lane)
    return chosen


def move_apart(places: NDArray[np.float64], gap: float, size: float) -> NDArray[np.float64]:
    """Move places (N,), in order, as little as can be until they lie `gap` apart within 0 … size.

    Those that would touch move together around their mean. Where N gaps are more than size, what
    there is is shared evenly.
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
