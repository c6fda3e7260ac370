"""Count word n-grams in texts, keep those that tell most, and smooth what is kept.

An n-gram is one integer, its first word in the highest bits: sorted, n-grams stand beside those of
the same context, and hundreds of millions of words are counted by sorting alone.

Kept are the n-grams that gain most, c·ln(p(w | h) / p(w | h')) nats of the texts, all orders
together, with the contexts they need. Each order then gives its counts on as interpolated
Kneser–Ney does, a kept n-gram as 1; one that is not kept gives on all that it counts, since the
order below must speak for it. Sources: Chen and Goodman 1998, "An empirical study of smoothing
techniques for language modeling", section 4.1.6, with the three discounts of section 3.4; pruned
counts, Siivola et al. 2007, "On growing and pruning Kneser–Ney smoothed n-gram models", section
III.
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
_FEWEST = 2  # times that an n-gram occurs if it may be kept where not all are
_LEAST_GAIN = 1e-9  # nats; what gains nothing is not kept


class _Counts(NamedTuple):
    """The distinct n-grams of one order: keys (n,), sorted, and how often each occurs (n,)."""

    keys: Keys
    seen: Integers

    def places(self, keys: Keys) -> Integers:
        """Say where n-grams (m,) stand, all of which occur."""
        return np.asarray(np.searchsorted(self.keys, keys))


def train_word_ngrams(
    sentences: Iterable[Sequence[str]],
    words: Sequence[str],
    order: int = 4,
    most: int | None = None,
) -> WordNgrams:
    """Count n-grams and make the model.

    words: the lexicon; all others count as one unknown word. order: of the longest n-grams.
    most: how many n-grams of order 2 and above to keep, those that gain most; the contexts they
        need come on top. None keeps all.

    Raises:
        UserError: no text, an order below 2, or n-grams of so many words do not fit into 64 bits.
    """
    if order < 2:
        raise UserError(f"a word model has n-grams of at least 2 words, not {order}")
    size = len(words) + SPECIAL_WORDS
    bits = (size - 1).bit_length()
    if order * bits > _KEY_BITS:
        limit = 2 ** (_KEY_BITS // order) - SPECIAL_WORDS
        raise UserError(f"{order}-grams can be counted of at most {limit} words, not {len(words)}")
    start = len(words) + 1
    counts = _count(_numbers(sentences, words), bits, order, start)
    kept = _kept(counts, bits, start, most)
    tables: list[Table] = []
    spoken_for = np.zeros(len(counts[-1].seen), np.int64)  # of what each counts, by longer ones
    for n in range(order, 1, -1):
        own, lower, keep = counts[n - 1], counts[n - 2], kept[n - 1]
        keys = own.keys[keep]
        words_before = keys >> np.uint64(bits)
        if n == 2:
            contexts = words_before.astype(np.int64)
        else:
            contexts = np.searchsorted(lower.keys[kept[n - 2]], words_before)
        codes = contexts * size + (keys & _low(bits)).astype(np.int64)
        explicit = _explicit(own, lower, keep, spoken_for, bits)
        tables.insert(0, Table(codes, explicit))
        spoken_for = _given_on(own, lower, keep, spoken_for, bits * (n - 1))
    unigrams = np.zeros(size)
    unigrams[counts[0].keys.astype(np.int64)] = counts[0].seen - spoken_for
    unigrams[start] = 0  # nothing ever starts again
    told = [table for table in tables if len(table.codes)]  # the longest may all have gone
    return WordNgrams(list(words), unigrams / unigrams.sum(), told)


def lexicon_of(
    sentences: Iterable[Sequence[str]], least: int = 1, most: int | None = None
) -> list[str]:
    """Return the words that occur at least so often; at most so many, the most frequent."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    return sorted(word for word, count in counts.most_common(most) if count >= least)


def _numbers(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> Keys:
    """Return the words of all texts as numbers, each text between its start and its end."""
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
    """Count the n-grams of orders 1 to `order` that do not reach over a text's start."""
    keys, inside = stream.copy(), np.ones(len(stream), np.bool_)
    counts = [_distinct(keys)]
    for n in range(2, order + 1):  # of which the last word stands at each place
        keys[n - 1 :] |= stream[: 1 - n] << np.uint64(bits * (n - 1))
        inside[: n - 1] = False
        inside[n - 1 :] &= stream[1 : len(stream) - n + 2] != start
        counts.append(_distinct(keys[inside]))
    return counts


def _distinct(keys: Keys) -> _Counts:
    keys = np.sort(keys)
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return _Counts(keys[first], np.diff(np.append(first, len(keys))))


def _kept(
    counts: Sequence[_Counts], bits: int, start: int, most: int | None
) -> list[NDArray[np.bool_]]:
    """Say which n-grams of each order to keep: all words, the longer ones that gain most."""
    kept = [np.ones(len(own.seen), np.bool_) for own in counts]
    if most is None:
        return kept
    gains = [_gains(counts, n, bits, start) for n in range(2, len(counts) + 1)]
    every = np.sort(np.concatenate(gains))[::-1]
    least = every[min(most, len(every)) - 1] if most else np.inf
    for n in range(len(counts), 1, -1):
        chosen = gains[n - 2] >= max(least, _LEAST_GAIN)
        if n < len(counts):
            longer = counts[n].keys[kept[n]]
            chosen[counts[n - 1].places(longer >> np.uint64(bits))] = True
        kept[n - 1] = chosen
    return kept


def _gains(counts: Sequence[_Counts], n: int, bits: int, start: int) -> Floats:
    """Return how many nats of the texts each n-gram is worth, by relative frequencies."""
    own, lower = counts[n - 1], counts[n - 2]
    gains = np.zeros(len(own.seen))
    often = np.flatnonzero(own.seen >= _FEWEST)  # the others are most, and worth little each
    keys, seen = own.keys[often], own.seen[often]
    tails = keys & _low(bits * (n - 1))
    if n == 2:
        without: Integers | int = lower.seen[lower.keys != start].sum()
    else:
        without = counts[n - 3].seen[counts[n - 3].places(tails >> np.uint64(bits))]
    contexts = lower.seen[lower.places(keys >> np.uint64(bits))]
    gains[often] = seen * np.log(seen / contexts / (lower.seen[lower.places(tails)] / without))
    return gains


def _explicit(
    own: _Counts, lower: _Counts, keep: NDArray[np.bool_], spoken_for: Integers, bits: int
) -> Floats:
    """Return the explicit probabilities of the n-grams that are kept."""
    counts = own.seen - spoken_for
    totals = lower.seen.copy()  # of what follows a context; texts go on until their end
    some = np.flatnonzero(spoken_for)
    np.subtract.at(totals, lower.places(own.keys[some] >> np.uint64(bits)), spoken_for[some])
    contexts = totals[lower.places(own.keys[keep] >> np.uint64(bits))]
    left = counts[keep] - _discounts(counts)[np.minimum(counts[keep], 3)]
    return np.asarray(np.maximum(left, 0) / contexts)


def _discounts(counts: Integers) -> Floats:
    """Return what to take off counts of 0, 1, 2, and 3 or more."""
    once, twice, thrice, four = (int((counts == many).sum()) for many in range(1, 5))
    if not (once and twice and thrice and four):
        return np.array([0, 0.5, 0.5, 0.5])
    share = once / (once + 2 * twice)
    ratios = twice / once, thrice / twice, four / thrice
    return np.array([0, *((i + 1) - (i + 2) * share * ratio for i, ratio in enumerate(ratios))])


def _given_on(
    own: _Counts, lower: _Counts, keep: NDArray[np.bool_], spoken_for: Integers, tail_bits: int
) -> Integers:
    """Return how much of what the n-grams one shorter count is spoken for, by longer ones.

    A kept n-gram speaks for all that it counts but 1; others hand on what speaks for them.
    """
    handed = np.where(keep, own.seen - 1, spoken_for)
    some = np.flatnonzero(handed)
    below = np.zeros(len(lower.seen), np.int64)
    np.add.at(below, lower.places(own.keys[some] & _low(tail_bits)), handed[some])
    return below


def _low(bits: int) -> np.uint64:
    """A mask of so many low bits."""
    return np.uint64((1 << bits) - 1)
