"""Pruning and recombination: which extensions of the hypotheses a beam keeps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asr.search.contract import Integers
from asr.search.options import BeamSettings
from asr.search.trees import reorder
from asr.text.vocabulary import EOS

Doubles = NDArray[np.float64]

_CANDIDATES = 3  # per place in the beam, since recombination removes some
_FACTOR = np.int64(6364136223846793005)  # of a 64-bit linear congruential generator (Knuth)


def choose(
    sums: Doubles, recent: Integers, settings: BeamSettings
) -> tuple[Doubles, Integers, Integers]:
    """Choose the best extensions of each utterance by their sums of scores (b, n, V).

    recent: (b, n, L), the last tokens of each hypothesis, L = settings.recombine.
    Returns sums (−inf if too far below the best), parents and tokens, (b, m), best first; m is
    the largest number that any utterance keeps.
    """
    vocabulary_size = sums.shape[-1]
    flat = sums.reshape(len(sums), -1)
    if settings.size == 1 and sums.shape[1] == 1:  # greedy search: nothing to prune or recombine
        tokens = flat.argmax(-1)[:, None]
        return flat[np.arange(len(flat))[:, None], tokens], np.zeros_like(tokens), tokens
    totals, index = _top(flat, settings.size * (_CANDIDATES if settings.recombine else 1))
    if settings.recombine:
        totals, index = _recombined(totals, index, recent, vocabulary_size, settings.size)
    totals[totals < totals[:, :1] - settings.width] = -np.inf
    if totals.shape[1] > 1:
        most = max(1, int((totals > -np.inf).sum(1).max(initial=0)))  # live; the dead come last
        totals, index = totals[:, :most], index[:, :most]
    parents, tokens = np.divmod(index, vocabulary_size)
    return totals, parents, tokens


def append(recent: Integers, parents: Integers, tokens: Integers) -> Integers:
    """Return the last tokens (b, m, L) of each new hypothesis."""
    if not recent.shape[-1]:
        if recent.shape[:2] == parents.shape:
            return recent
        return np.broadcast_to(recent[:, :1], (*parents.shape, 0))
    kept = recent[np.arange(len(parents))[:, None], parents]
    return np.concatenate([kept[..., 1:], tokens[..., None]], axis=-1)


def _top(values: Doubles, count: int) -> tuple[Doubles, Integers]:
    """Return the `count` largest values of each row in descending order, and their indices."""
    if count == 1:
        index = values.argmax(-1)[:, None]
        return reorder(values, index), index
    if count < values.shape[1]:
        some = np.argpartition(values, values.shape[1] - count, axis=-1)[:, -count:]
        found = reorder(values, some)
        order = np.argsort(-found, axis=-1, kind="stable")
        return reorder(found, order), reorder(some, order)
    order = np.argsort(-values, axis=-1, kind="stable")
    return reorder(values, order), order


def _recombined(
    totals: Doubles, index: Integers, recent: Integers, vocabulary_size: int, size: int
) -> tuple[Doubles, Integers]:
    """Keep the `size` best (b, k) with different last tokens; an ended one is no duplicate."""
    parents, tokens = np.divmod(index, vocabulary_size)
    # The key of a hypothesis is a hash of its last tokens; overflow wraps around.
    powers = _FACTOR ** np.arange(recent.shape[-1])[::-1]
    before = recent[..., 1:] @ powers[:-1]  # (b, n)
    keys = reorder(before, parents) + tokens
    equal = keys[:, :, None] == keys[:, None]  # (b, k, k)
    is_duplicate = np.tril(equal, -1).any(-1)  # a better one has the same last tokens
    is_duplicate &= tokens != EOS
    order = np.argsort(is_duplicate, axis=-1, kind="stable")[:, :size]
    totals = np.where(is_duplicate, -np.inf, totals)
    return reorder(totals, order), reorder(index, order)
