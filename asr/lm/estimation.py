"""Estimation of word n-gram models: count n-grams in texts, prune them, and smooth the rest.

An n-gram is one integer with its first word in the highest bits. Sorting puts n-grams of the same
context next to each other, and is all that counting hundreds of millions of words takes.

An n-gram of count c gains c·ln(p(w | h) / p(w | h')) nats in the log-likelihood of the texts. Those
of the largest gain are kept, over all orders, with the contexts they need. Smoothing is
interpolated Kneser–Ney: a kept n-gram adds 1 to the count of its suffix in the order below, a
pruned one its whole count, since the lower order must model it.

Sources: Chen and Goodman 1998, "An empirical study of smoothing techniques for language modeling",
section 4.1.6, with the three discounts of section 3.4; pruned counts, Siivola et al. 2007, "On
growing and pruning Kneser–Ney smoothed n-gram models", section III.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.lm.word_ngrams import SPECIAL_WORDS, Floats, Integers, Table, WordNgrams

Keys = NDArray[np.uint64]

_KEY_BITS = 64
_LEAST_COUNT = 2  # of an n-gram that pruning may keep
_LEAST_GAIN = 1e-9  # nats; pruning removes n-grams without gain


class _Counts(NamedTuple):
    """The distinct n-grams of one order: keys (n,), sorted, and the count of each (n,)."""

    keys: Keys
    seen: Integers

    def places(self, keys: Keys) -> Integers:
        """Return the indices of n-grams (m,), all of which must occur."""
        return np.asarray(np.searchsorted(self.keys, keys))


def train_word_ngrams(
    sentences: Iterable[Sequence[str]],
    words: Sequence[str],
    order: int = 4,
    most: int | None = None,
) -> WordNgrams:
    """Estimate a model from texts.

    words: the lexicon; all others count as one unknown word. order: of the longest n-grams.
    most: number of n-grams of order 2 and above to keep, those of the largest gain; the contexts
        they need are kept in addition. None keeps all.

    Raises:
        UserError: no text, an order below 2, or the n-grams do not fit into 64 bits.
    """
    if order < 2:
        raise UserError(f"the order of a word model must be at least 2 words, not {order}")
    size = len(words) + SPECIAL_WORDS
    bits = (size - 1).bit_length()
    if order * bits > _KEY_BITS:
        limit = 2 ** (_KEY_BITS // order) - SPECIAL_WORDS
        raise UserError(
            f"{order}-grams need a lexicon of at most {limit} words, not {len(words)}: "
            "shorten the lexicon or lower the order"
        )
    start = len(words) + 1
    counts = _count(_numbers(sentences, words), bits, order, start)
    kept = _kept(counts, bits, start, most)
    tables: list[Table] = []
    covered = np.zeros(len(counts[-1].seen), np.int64)  # part of each count
    for n in range(order, 1, -1):
        own, lower, keep = counts[n - 1], counts[n - 2], kept[n - 1]
        keys = own.keys[keep]
        words_before = keys >> np.uint64(bits)
        if n == 2:
            contexts = words_before.astype(np.int64)
        else:
            contexts = np.searchsorted(lower.keys[kept[n - 2]], words_before)
        codes = contexts * size + (keys & _low(bits)).astype(np.int64)
        explicit = _explicit(own, lower, keep, covered, bits)
        tables.insert(0, Table(codes, explicit))
        covered = _covered(own, lower, keep, covered, bits * (n - 1))
    unigrams = np.zeros(size)
    unigrams[counts[0].keys.astype(np.int64)] = counts[0].seen - covered
    unigrams[start] = 0  # the start of a text is never predicted
    tables = [table for table in tables if len(table.codes)]  # the longest may all be pruned
    return WordNgrams(list(words), unigrams / unigrams.sum(), tables)


def lexicon_of(
    sentences: Iterable[Sequence[str]], least: int = 1, most: int | None = None
) -> list[str]:
    """Return, sorted, the `most` most frequent words (None: all) with at least `least` counts."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    return sorted(word for word, count in counts.most_common(most) if count >= least)


def _numbers(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> Keys:
    """Return the word numbers of all texts, each between the numbers of start and end."""
    number = {word: index for index, word in enumerate(words)}
    end, start, unknown = range(len(words), len(words) + SPECIAL_WORDS)
    texts = (
        (start, *(number.get(word, unknown) for word in sentence), end) for sentence in sentences
    )
    stream = np.fromiter(chain.from_iterable(texts), np.uint64)
    if not len(stream):
        raise UserError("no text to count words in; give it some lines")
    return stream


def _count(stream: Keys, bits: int, order: int, start: int) -> list[_Counts]:
    """Count the n-grams of orders 1 to `order` that do not cross the start of a text."""
    keys, inside = stream.copy(), np.ones(len(stream), np.bool_)
    counts = [_distinct(keys)]
    for n in range(2, order + 1):  # keys[i]: the n-gram that ends with word i
        keys[n - 1 :] |= stream[: 1 - n] << np.uint64(bits * (n - 1))
        inside[: n - 1] = False
        inside[n - 1 :] &= stream[1 : len(stream) - n + 2] != start
        counts.append(_distinct(keys[inside]))
    return counts


def _distinct(keys: Keys) -> _Counts:
    """Count equal keys."""
    keys = np.sort(keys)
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return _Counts(keys[first], np.diff(np.append(first, len(keys))))


def _kept(
    counts: Sequence[_Counts], bits: int, start: int, most: int | None
) -> list[NDArray[np.bool_]]:
    """Return which n-grams of each order to keep: all words, and longer ones of largest gain."""
    kept = [np.ones(len(own.seen), np.bool_) for own in counts]
    if most is None:
        return kept
    gains = [_gains(counts, n, bits, start) for n in range(2, len(counts) + 1)]
    ordered = np.sort(np.concatenate(gains))[::-1]
    least = ordered[min(most, len(ordered)) - 1] if most else np.inf
    for n in range(len(counts), 1, -1):
        chosen = gains[n - 2] >= max(least, _LEAST_GAIN)
        if n < len(counts):
            longer = counts[n].keys[kept[n]]
            chosen[counts[n - 1].places(longer >> np.uint64(bits))] = True
        kept[n - 1] = chosen
    return kept


def _gains(counts: Sequence[_Counts], n: int, bits: int, start: int) -> Floats:
    """Return the gain of each n-gram in nats, by relative frequencies."""
    own, lower = counts[n - 1], counts[n - 2]
    gains = np.zeros(len(own.seen))
    some = np.flatnonzero(own.seen >= _LEAST_COUNT)  # the others are many and gain little each
    keys, seen = own.keys[some], own.seen[some]
    suffixes = keys & _low(bits * (n - 1))
    if n == 2:
        without: Integers | int = lower.seen[lower.keys != start].sum()
    else:
        without = counts[n - 3].seen[counts[n - 3].places(suffixes >> np.uint64(bits))]
    contexts = lower.seen[lower.places(keys >> np.uint64(bits))]
    shorter = lower.seen[lower.places(suffixes)]
    gains[some] = seen * np.log(seen / contexts / (shorter / without))
    return gains


def _explicit(
    own: _Counts, lower: _Counts, keep: NDArray[np.bool_], covered: Integers, bits: int
) -> Floats:
    """Return the explicit probabilities of the kept n-grams."""
    counts = own.seen - covered
    totals = lower.seen.copy()  # counts of the successors of a context, end of text included
    some = np.flatnonzero(covered)
    np.subtract.at(totals, lower.places(own.keys[some] >> np.uint64(bits)), covered[some])
    contexts = totals[lower.places(own.keys[keep] >> np.uint64(bits))]
    left = counts[keep] - _discounts(counts)[np.minimum(counts[keep], 3)]
    return np.asarray(np.maximum(left, 0) / contexts)


def _discounts(counts: Integers) -> Floats:
    """Return the discounts of counts 0, 1, 2, and 3 or more; 0.5 each where they are impossible.

    In a small or selected text the formula gives discounts below 0 or above the count itself.
    """
    once, twice, thrice, four = (int((counts == count).sum()) for count in range(1, 5))
    if once and twice and thrice and four:
        share = once / (once + 2 * twice)
        ratios = twice / once, thrice / twice, four / thrice
        found = [i - (i + 1) * share * ratio for i, ratio in enumerate(ratios, 1)]
        if all(0 <= discount <= i for i, discount in enumerate(found, 1)):
            return np.array([0, *found])
    return np.array([0, 0.5, 0.5, 0.5])


def _covered(
    own: _Counts, lower: _Counts, keep: NDArray[np.bool_], covered: Integers, suffix_bits: int
) -> Integers:
    """Return the part of the counts of the next lower order that longer n-grams model.

    A kept n-gram covers its count less 1; a pruned one passes on the part that is itself covered.
    """
    passed = np.where(keep, own.seen - 1, covered)
    some = np.flatnonzero(passed)
    below = np.zeros(len(lower.seen), np.int64)
    np.add.at(below, lower.places(own.keys[some] & _low(suffix_bits)), passed[some])
    return below


def _low(bits: int) -> np.uint64:
    """Return a mask of the lowest bits."""
    return np.uint64((1 << bits) - 1)
