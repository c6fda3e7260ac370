"""What was read of a page: the best path through the words of a text that a reader may leave.

Frames are those of the CTC head. A path reads words of the page in order, skips words, returns to
earlier ones, or leaves the page for stretches of other speech.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.alignment.paths import Doubles, Floats, best_so_far
from asr.text.vocabulary import BLANK

Integers = NDArray[np.int64]
Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Penalties:
    """Costs of leaving the page, in nats; chosen by `benchmarks/reading.py`.

    skip, skip_word: of skipping words, and of each word. back, back_word: the same for returning.
    other, other_frame: of other speech, and of each frame of it, in which any symbol is possible.
    replace_word: of each page word that other speech replaces.
    """

    skip: float = 4.0
    skip_word: float = 0.7
    back: float = 2.0
    back_word: float = 0.3
    other: float = 6.0
    other_frame: float = 0.6
    replace_word: float = 0.7


CHOSEN: Final = Penalties()


class Visit(NamedTuple):
    """A stretch of a path: one reading of a word, or other speech.

    word: index on the page; None for other speech. start, stop: its frames, as first and last + 1.
    margin: log-probability of the stretch on the path minus that of the best symbol of each frame,
    in nats; at most 0, and 0 for other speech.
    """

    word: int | None
    start: int
    stop: int
    margin: float


# How a state was entered: from itself, from the state before, or over a blank between two symbols.
_STAY: Final = 0
_STEP: Final = 1
_OVER: Final = 2
# How a pause or other speech was entered, besides _STAY: from the end of the word before it, from
# the pause at the same place, or from other speech (at this place or an earlier one).
_FROM_WORD: Final = 1
_FROM_PAUSE: Final = 2
_FROM_OTHER: Final = 3


def read_page(
    log_probs: Floats,
    words: Sequence[Sequence[int]],
    space: int,
    penalties: Penalties = CHOSEN,
) -> list[Visit]:
    """Return the best reading of a page, in order of time; pauses are left out.

    Viterbi search. Between words there is at least one frame of blank, space or other speech.
    O(T'·S), with S symbols of the page, in time and (one byte each) in memory.

    log_probs: (T', V), blank at id 0. words: ids of each word of the page, at least one word, none
        of them empty. space: id of the space, which a pause may hold.

    Raises:
        ValueError: log_probs is not (T', V), or a word is empty or holds the blank.
    """
    scores = np.asarray(log_probs, dtype=np.float64)
    if scores.ndim != 2:
        raise ValueError(f"log_probs must be (T', V), got {scores.shape}")
    search = PageSearch.of(words, space, penalties)
    if not len(scores):
        return []
    return _visits(scores, search.graph, _search(scores, search))


class PageGraph(NamedTuple):
    """The states of the W words in one row: the symbols of each word, with blanks between them.

    labels: (S,). first, last: (W,), states of each word. may_skip: (S,), 0 where the blank before
    a state may be left out, else −inf. word: (S,), index of the word.
    """

    labels: Integers
    first: Integers
    last: Integers
    may_skip: Doubles
    word: Integers

    @classmethod
    def of(cls, words: Sequence[Sequence[int]]) -> PageGraph:
        lengths = np.array([2 * len(word) - 1 for word in words])
        last = np.cumsum(lengths) - 1
        first = last - lengths + 1
        labels = np.full(last[-1] + 1, BLANK)
        may_skip = np.full(len(labels), -np.inf)
        for word, start, stop in zip(words, first, last + 1, strict=True):
            labels[start:stop:2] = word
            differs = np.diff(word) != 0
            may_skip[start + 2 : stop : 2] = np.where(differs, 0.0, -np.inf)
        return cls(labels, first, last, may_skip, np.repeat(np.arange(len(words)), lengths))


class Pointers(NamedTuple):
    """How each state was entered in each frame; P = W + 1 places, place w is before word w.

    states: (T', S), `_STAY`, `_STEP` or `_OVER`. words: (T', W), where a word was entered from: a
    place p, or P + p from other speech at p. pauses, others: (T', P), see `_FROM_WORD`. replaced:
    (T', P), place at which the other speech before this place began, if it is left here.
    final: where the path ends, coded as in `words`; from the end of the word before p, 2 P + p.
    """

    states: Codes
    words: Integers
    pauses: Codes
    others: Codes
    replaced: Integers
    final: int

    @classmethod
    def of(cls, frames: int, graph: PageGraph) -> Pointers:
        """Return pointers to be written."""
        symbols, places = len(graph.labels), len(graph.first) + 1
        codes, wide = (frames, places), np.int32
        return cls(
            np.zeros((frames, symbols), np.int8),
            np.zeros((frames, places - 1), wide),
            np.zeros(codes, np.int8),
            np.zeros(codes, np.int8),
            np.zeros(codes, wide),
            0,
        )


class PageState(NamedTuple):
    """Log-probability of the best path to each state after some frames; P = W + 1 places.

    symbols: (S,), states of the words. ended: (P,), the last state of the word before each place.
    pause, other: (P,), a pause and other speech at each place.
    """

    symbols: Doubles
    ended: Doubles
    pause: Doubles
    other: Doubles


@dataclass(frozen=True)
class PageSearch:
    """What a search over a page is made of; all state is passed. space: id of the space."""

    graph: PageGraph
    space: int
    costs: Penalties

    @classmethod
    def of(
        cls, words: Sequence[Sequence[int]], space: int, penalties: Penalties = CHOSEN
    ) -> PageSearch:
        """Make the search over a page; words: ids of each.

        Raises:
            ValueError: there is no word, or a word is empty or holds the blank.
        """
        if not words or not all(len(word) and BLANK not in word for word in words):
            raise ValueError("a page needs words, each with symbols other than the blank")
        return cls(PageGraph.of(words), space, penalties)

    def begin(self) -> PageState:
        """Return the state before the first frame: at the start of the page."""
        none = np.full(len(self.graph.first) + 1, -np.inf)
        pause = none.copy()
        pause[0] = 0.0
        return PageState(np.full(len(self.graph.labels), -np.inf), none, pause, none)

    def advance(
        self, state: PageState, scores: Doubles, pointers: Pointers, frame: int
    ) -> PageState:
        """Return the state after one more frame; scores: (V,). Writes a row of the pointers."""
        graph, costs = self.graph, self.costs
        places = len(graph.first) + 1
        highest, quiet = scores.max(), max(scores[BLANK], scores[self.space])
        left, replaced = _forward(state.other, costs.replace_word)
        jumped, origin = _jumps(state.pause, costs)
        entered = np.maximum(jumped, left)
        pointers.replaced[frame] = replaced
        pointers.words[frame] = np.where(jumped >= left, origin, places + replaced)[:-1]
        pause = _best(pointers.pauses[frame], state.pause, state.ended, None, left) + quiet
        other = _best(
            pointers.others[frame],
            state.other,
            state.ended - costs.other,
            state.pause - costs.other,
            None,
        )
        symbols = _steps(pointers.states[frame], state.symbols, entered[:-1], graph)
        symbols += scores[graph.labels]
        ended = np.concatenate([[-np.inf], symbols[graph.last]])
        return PageState(symbols, ended, pause, other + (highest - costs.other_frame))


def _search(scores: Doubles, search: PageSearch) -> Pointers:
    pointers = Pointers.of(len(scores), search.graph)
    state = search.begin()
    for frame, row in enumerate(scores):
        state = search.advance(state, row, pointers, frame)
    return pointers._replace(final=_end(state.pause, state.other, state.ended, search.costs))


def _steps(pointer: Codes, state: Doubles, entered: Doubles, graph: PageGraph) -> Doubles:
    """Advance the states of the words by one frame, without emission; pointer is written."""
    step = np.empty_like(state)
    step[1:] = state[:-1]
    step[graph.first] = entered
    over = np.full_like(state, -np.inf)
    over[2:] = state[:-2] + graph.may_skip[2:]
    best: Doubles = np.maximum(np.maximum(state, step), over)
    pointer[step > state] = _STEP
    pointer[over > np.maximum(state, step)] = _OVER
    return best


def _best(
    pointer: Codes, stay: Doubles, word: Doubles, pause: Doubles | None, other: Doubles | None
) -> Doubles:
    """Return the best of several ways into a pause or other speech; pointer is written."""
    best = stay.copy()
    for code, source in ((_FROM_WORD, word), (_FROM_PAUSE, pause), (_FROM_OTHER, other)):
        if source is not None:
            pointer[source > best] = code
            np.maximum(best, source, out=best)
    return best


def _forward(scores: Doubles, cost: float) -> tuple[Doubles, Integers]:
    """Return max over i ≤ j of scores[i] − cost · (j − i), and the best i, for each place j."""
    places = np.arange(len(scores))
    best, origin = best_so_far(scores + cost * places)
    return best - cost * places, origin


def _jumps(pause: Doubles, costs: Penalties) -> tuple[Doubles, Integers]:
    """Return the best score of going on at each place, and the place of the pause before it."""
    best, origin = pause.copy(), np.arange(len(pause))
    ahead, ahead_from = _forward(pause, costs.skip_word)
    back, back_from = _forward(pause[::-1], costs.back_word)
    back, back_from = back[::-1], len(pause) - 1 - back_from[::-1]
    for score, source, cost in (
        (ahead, ahead_from, costs.skip),
        (back, back_from, costs.back),
    ):
        is_better = score - cost > best
        best = np.where(is_better, score - cost, best)
        origin = np.where(is_better, source, origin)
    return best, origin


def _end(pause: Doubles, other: Doubles, ended: Doubles, costs: Penalties) -> int:
    """Return where the best path ends; words not reached are skipped."""
    places = len(pause)
    missing = np.arange(places)[::-1]
    skipped = np.where(missing, costs.skip + costs.skip_word * missing, 0.0)
    ends = np.concatenate([pause - skipped, other - costs.replace_word * missing, ended - skipped])
    return int(ends.argmax())


def _visits(scores: Doubles, graph: PageGraph, pointers: Pointers) -> list[Visit]:
    """Follow the pointers back from the end, and join the frames of each stretch."""
    places = len(graph.first) + 1
    kind, place = divmod(pointers.final, places)  # 0: a pause, 1: other speech, 2: a word
    state = int(graph.last[place - 1]) if kind == 2 else -1
    found: list[tuple[int, int]] = []  # from the last frame: word (−1: other, −2: pause), state
    for frame in range(len(scores) - 1, -1, -1):
        if kind == 2:
            word = int(graph.word[state])
            found.append((word, state))
            code = int(pointers.states[frame, state])
            if code == _STEP and state == graph.first[word]:
                kind, place = divmod(int(pointers.words[frame, word]), places)
            else:
                state -= code
            continue
        found.append((-1 - (kind == 0), -1))
        code = int((pointers.others if kind else pointers.pauses)[frame, place])
        if code == _FROM_WORD:
            kind, state = 2, int(graph.last[place - 1])
        elif code == _FROM_PAUSE:
            kind = 0
        elif code == _FROM_OTHER:
            kind, place = 1, int(pointers.replaced[frame, place])
    return _stretches(scores, graph, found[::-1])


def _stretches(scores: Doubles, graph: PageGraph, path: list[tuple[int, int]]) -> list[Visit]:
    visits = []
    for word, run in groupby(enumerate(path), lambda each: each[1][0]):
        frames = [frame for frame, _ in run]
        start, stop = frames[0], frames[-1] + 1
        if word == -1:
            visits.append(Visit(None, start, stop, 0.0))
        elif word >= 0:
            labels = graph.labels[[path[frame][1] for frame in frames]]
            margin = (scores[frames, labels] - scores[frames].max(1)).sum()
            visits.append(Visit(word, start, stop, float(margin)))
    return visits
