"""The place on a page while it is read aloud: the search of `asr.alignment.page`, frame by frame.

The state holds the best path to every symbol of the page, so nothing is decided before the frames
are there: a sentence that is read again or skipped is found when its path becomes the best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from asr.alignment.page import PageSearch, PageState, Pointers
from asr.alignment.paths import Doubles, Floats

LEAD: Final = 3.0  # nats; 0 to 6 make little difference (docs/measurements/read.md)


class Place(NamedTuple):
    """Where a reader is. word: index on the page. part: of the page, such as a sentence."""

    word: int
    part: int


def follow(search: PageSearch, state: PageState, log_probs: Floats) -> PageState:
    """Return the state after more frames; log_probs: (T', V). O(T'·S), S symbols of the page."""
    pointers = Pointers.of(1, search.graph)  # not followed back
    for row in np.asarray(log_probs, dtype=np.float64):
        state = search.advance(state, row, pointers, 0)
    return state


def word_scores(search: PageSearch, state: PageState) -> Doubles:
    """Return the log-probability (W + 1,) of the best path on which each word is the last one.

    The first is that of the path on which no word was begun.
    """
    scores = np.maximum(state.pause, state.other)
    inside = np.maximum.reduceat(state.symbols, search.graph.first)
    scores[1:] = np.maximum(scores[1:], inside)
    return scores


def locate(
    scores: Doubles, parts: Sequence[int], before: Place | None, lead: float = LEAD
) -> Place | None:
    """Return the place with the best score; None if no word was begun.

    scores: (W + 1,) of `word_scores`. parts: (W,), the part that each word belongs to, rising.
    before: the place so far. A part that is neither the same nor the next one needs a lead over the
    words of both, in nats; otherwise the best place among these is returned.
    """
    word = int(scores.argmax()) - 1
    if word < 0:
        return before
    at = np.asarray(parts)
    current = 0 if before is None else before.part
    if not 0 <= at[word] - current <= 1:
        near = np.flatnonzero((at >= current) & (at <= current + 1))
        expected = int(near[scores[1 + near].argmax()])
        if scores[1 + word] - scores[1 + expected] < lead:
            if before is None:
                return None
            word = expected
    return Place(word, int(at[word]))
