"""Word n-grams as cumulative sums: the probability of a range of words in any context."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.lm.word_ngrams import SPECIAL_WORDS, Floats, Integers, WordNgrams
from asr.search.contract import Booleans


class _Table(NamedTuple):
    """The n-grams of one order.

    codes: (n,), sorted. sums: (n + 1,), of the explicit probabilities before each n-gram. occurs:
    (contexts + 1,) bool, whether any n-gram has this context; false for −1, the last. rest:
    (contexts,), probability that is not explicit, in each context.
    """

    codes: Integers
    sums: Floats
    occurs: Booleans
    rest: NDArray[np.float32]


class NgramRanges:
    """A `WordNgrams` for ranges of words; contexts as in `asr.lm.lookahead`.

    end, unknown: the numbers of the end of text and the unknown word.
    """

    def __init__(self, ngrams: WordNgrams) -> None:
        """Compute the cumulative sums of each order."""
        words = len(ngrams.words)
        self.end, self._start, self.unknown = words, words + 1, words + 2
        self._size = words + SPECIAL_WORDS
        self._unigrams = sums_before(ngrams.unigrams)
        self._tables: list[_Table] = []
        contexts = self._size
        for table in ngrams.tables:
            place = table.codes // self._size
            occurs = np.zeros(contexts + 1, np.bool_)
            occurs[place] = True
            explicit = np.bincount(place, weights=table.explicit, minlength=contexts)
            rest = (1.0 - explicit).astype(np.float32)
            self._tables.append(_Table(table.codes, sums_before(table.explicit), occurs, rest))
            contexts = len(table.codes)

    def start(self) -> Integers:
        """Return the contexts (1, order − 1) at the start of a text."""
        empty = np.full((1, max(1, len(self._tables))), -1)
        return self.after(empty, np.array([self._start]))

    def range(self, contexts: Integers, first: Integers, after: Integers) -> Floats:
        """Return Σ p(w | h) over the words first … after − 1, (P,); contexts (P, order − 1)."""
        total: Floats = self._unigrams[after] - self._unigrams[first]
        for order, table in enumerate(self._tables):
            context = contexts[:, order]
            some = np.flatnonzero(table.occurs[context])
            if not len(some):
                continue
            context = context[some]
            base = context * self._size
            begin = np.searchsorted(table.codes, base + first[some])
            end = np.searchsorted(table.codes, base + after[some])
            explicit = table.sums[end] - table.sums[begin]
            total[some] = explicit + table.rest[context] * total[some]
        return total

    def p_end(self, contexts: Integers) -> Floats:
        """Return the probability (P,) that the text ends after these contexts."""
        end = np.full(len(contexts), self.end)
        return self.range(contexts, end, end + 1)

    def after(self, contexts: Integers, words: Integers) -> Integers:
        """Return the contexts (P, order − 1) after a word (P,) is appended to each."""
        new = np.full(contexts.shape, -1)
        new[:, 0] = words
        for order, table in enumerate(self._tables[:-1]):
            context = contexts[:, order]
            some = np.flatnonzero(table.occurs[context])
            if not len(some):
                continue
            code = context[some] * self._size + words[some]
            place = np.searchsorted(table.codes, code)
            np.minimum(place, len(table.codes) - 1, out=place)
            new[some, order + 1] = np.where(table.codes[place] == code, place, -1)
        return new


def sums_before(probabilities: NDArray[np.floating[Any]]) -> Floats:
    """Return the sums (n + 1,) of the probabilities (n,) before each place, in float64."""
    sums = np.zeros(len(probabilities) + 1)
    sums[1:] = probabilities  # converted first: summing float32 as float64 takes twice as long
    np.cumsum(sums, out=sums)
    return sums
