"""A small n-gram language model for the search, interpolated with Witten–Bell weights.

    p(c | h) = (count(h c) + D(h) · p(c | h')) / (count(h) + D(h))

D(h) is the number of different tokens that follow h, h' is h without its oldest token, and the
distribution below the empty history is uniform (Witten and Bell 1991, in the form of Chen and
Goodman 1998).

Every history is a node with a row of probabilities and a row of successor nodes, so a step of any
number of hypotheses is two look-ups. This suits vocabularies of characters, since each row has the
length of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.search.contract import Booleans
from asr.search.trees import reorder
from asr.text.vocabulary import BLANK, EOS

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class NgramCounts(NamedTuple):
    """Counts of n-grams of orders 1, 2, ….

    grams: per order n, the sorted codes Σ y_i · V^(n − i) of y_1 … y_n. counts: of each.
    """

    vocabulary_size: int
    grams: list[Integers]
    counts: list[Integers]


class Texts(NamedTuple):
    """N texts of token ids, joined: tokens (S,), lengths (N,)."""

    tokens: Integers
    lengths: Integers

    @classmethod
    def of(cls, texts: Iterable[Sequence[int]]) -> Texts:
        """Join texts."""
        each = [*texts]
        tokens = np.fromiter(chain.from_iterable(each), np.int64)
        return cls(tokens, np.array([len(text) for text in each], np.int64))


def count_ngrams(
    texts: Iterable[Sequence[int]] | Texts, vocabulary_size: int, order: int = 6, least: int = 1
) -> NgramCounts:
    """Count n-grams up to `order` in texts of ids without end-of-sentence, which is added.

    least: smallest count of a history of two or more tokens; rarer ones are left out.

    Raises:
        UserError: no text, or an order too high for the vocabulary.
    """
    if order < 1 or vocabulary_size**order >= 2**63:
        raise UserError(f"n-gram order {order} is too high for {vocabulary_size} tokens; lower it")
    tokens, lengths = texts if isinstance(texts, Texts) else Texts.of(texts)
    if not len(lengths):
        raise UserError("no text to count n-grams in; give it some lines")
    ends = np.cumsum(lengths + 2)  # of each text in the stream, with an EOS on either side
    place = np.arange(ends[-1]) - np.repeat(ends - lengths - 2, lengths + 2)  # in its text
    stream = np.full(ends[-1], EOS)
    is_token = place > 0
    is_token[ends - 1] = False
    stream[is_token] = tokens
    codes = stream.copy()
    grams, counts = [], []
    for size in range(1, order + 1):
        # The first token of a text is not predicted, and no history crosses the start of its text.
        seen, count = _counted(codes[place >= max(size - 1, 1)], vocabulary_size**size)
        if size > 2 and least > 1:
            _, history = _distinct(seen // vocabulary_size)
            is_frequent = np.bincount(history, weights=count)[history] >= least
            seen, count = seen[is_frequent], count[is_frequent]
        grams.append(seen)
        counts.append(count)
        older = np.concatenate([np.zeros(size, np.int64), stream])[: len(stream)]
        codes = codes + older * vocabulary_size**size if size < order else codes
    return NgramCounts(vocabulary_size, grams, counts)


def _counted(codes: Integers, values: int) -> tuple[Integers, Integers]:
    """Return the distinct codes, sorted, and how often each occurs; all are below `values`."""
    if values <= len(codes):  # a table of all values takes less time than sorting
        occurs = np.bincount(codes)
        seen = np.flatnonzero(occurs)
        return seen, occurs[seen]
    narrow = np.int32 if values < 2**31 else np.int64  # sorted in half the time
    seen, place = _distinct(np.sort(codes.astype(narrow, copy=False)))
    return seen.astype(np.int64), np.bincount(place)


def _distinct(ordered: Integers) -> tuple[Integers, Integers]:
    """Return the distinct values of a sorted array, and the place of each entry among them."""
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    return ordered[is_new], np.cumsum(is_new) - 1


class NgramModel:
    """N-gram model as a `LanguageModel`; its state is the node (B, N) of each text."""

    def __init__(self, counts: NgramCounts) -> None:
        self._probabilities, self._successors = _tables(counts)  # (nodes, V) each

    @classmethod
    def train(
        cls,
        texts: Iterable[Sequence[int]] | Texts,
        vocabulary_size: int,
        order: int = 6,
        least: int = 1,
    ) -> NgramModel:
        """Count n-grams and build the model; see `count_ngrams`."""
        return cls(count_ngrams(texts, vocabulary_size, order, least))

    def start(self, batch: int) -> Integers:
        """See `LanguageModel.start`: a text starts after EOS."""
        return np.full((batch, 1), self._successors[0, EOS])

    def probabilities(self, state: Integers, tokens: Integers | None = None) -> Floats:
        """Return the probabilities (…, V) of the next token, or those (…) of tokens; state (…)."""
        found: Floats
        found = self._probabilities[state] if tokens is None else self._probabilities[state, tokens]
        return found

    def log_probs(self, state: Integers) -> Floats:
        """See `LanguageModel.log_probs`."""
        with np.errstate(divide="ignore"):
            return np.log(self._probabilities[state])

    def advance(
        self,
        state: Integers,
        parents: Integers,
        tokens: Integers,
        alive: Booleans | None = None,
    ) -> Integers:
        """See `LanguageModel.advance`."""
        return self.follow(reorder(state, parents), tokens)

    def follow(self, state: Integers, tokens: Integers) -> Integers:
        """Append a token (…) to each text; state (…)."""
        found: Integers = self._successors[state, tokens].astype(np.int64)
        return found


def _tables(counts: NgramCounts) -> tuple[Floats, NDArray[np.int32]]:
    """Return probabilities and successor nodes, (nodes, V) each; node 0 is the empty history."""
    size = counts.vocabulary_size
    # Codes of the histories, by length from 0: the n-grams are sorted, so these are, too.
    histories = [_distinct(grams // size)[0] for grams in counts.grams]
    first = np.cumsum([0, *(len(codes) for codes in histories)])  # first node of each length
    probabilities = np.zeros((first[-1], size))
    successors = np.zeros((first[-1], size), dtype=np.int32)  # half the memory of int64
    for length, codes in enumerate(histories):
        nodes = slice(first[length], first[length + 1])
        rows = probabilities[nodes]  # computed in place: the longest are most of the memory
        if length:
            without_oldest = codes % size ** (length - 1)
            shorter = first[length - 1] + np.searchsorted(histories[length - 1], without_oldest)
            rows[:] = probabilities[shorter]
            successors[nodes] = successors[shorter]
        else:
            rows[:] = 1 / (size - 1)
            rows[:, BLANK] = 0
        grams, count = counts.grams[length], counts.counts[length]
        place = np.searchsorted(codes, grams // size)
        distinct = np.bincount(place, minlength=len(codes))  # D(h)
        rows *= distinct[:, None]
        rows[place, grams % size] += count
        rows /= (np.bincount(place, count, len(codes)) + distinct)[:, None]
        if length + 1 < len(histories):
            # The successor is the longer history if that was seen.
            longer = histories[length + 1]
            nodes_before = first[length] + np.searchsorted(codes, longer // size)
            successors[nodes_before, longer % size] = first[length + 1] + np.arange(len(longer))
    return probabilities, successors
