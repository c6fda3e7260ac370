"""A lexicon as a prefix tree: the words that start with a given prefix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from asr.text.vocabulary import Vocabulary

Integers = NDArray[np.int64]


class Lexicon:
    """A prefix tree of sorted words; the words with one prefix have consecutive numbers.

    Nodes are prefixes: 0 is the empty prefix, −1 stands for one that no word has.

    children: (nodes, V), the node of the prefix with one more character, or −1. first, after:
    (nodes,), the words with this prefix are first … after − 1. whole: (nodes,) bool, whether the
    prefix is itself a word, which is then `first`.
    """

    def __init__(self, words: Sequence[str], vocabulary: Vocabulary) -> None:
        """Build the tree of words, spelt in the characters of a vocabulary.

        Raises:
            ValueError: no words, not sorted, or one occurs twice.
        """
        if not words or any(a >= b for a, b in pairwise(words)):
            raise ValueError("a lexicon needs at least one word, and its words sorted, each once")
        # Code points, 0 after the end of a word; one column per character.
        points = np.array(words).view(np.uint32).reshape(len(words), -1)
        lengths = (points > 0).sum(1)
        shared = np.zeros(len(words), np.int64)  # characters shared with the word before
        shared[1:] = (points[1:] == points[:-1]).cumprod(1).sum(1)
        first_new = 1 + np.concatenate([[0], np.cumsum(lengths - shared)])  # node of each word
        count = int(first_new[-1])
        characters = _ids(points, vocabulary)
        children = np.full((count + 1, len(vocabulary)), -1, np.int32)  # the last row: node −1
        first, after = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        whole = np.zeros(count + 1, np.bool_)
        after[0] = len(words)
        parent = np.zeros(len(words), np.int64)
        for depth in range(points.shape[1]):
            long = np.flatnonzero(lengths > depth)
            new = shared[long] <= depth
            # A prefix shared with the word before has the node created for an earlier word.
            creator = np.maximum.accumulate(np.where(new, np.arange(len(long)), 0))
            nodes = first_new[long[creator]] + depth - shared[long[creator]]
            children[parent[long], characters[long, depth]] = nodes
            first[nodes[new]] = long[new]
            np.maximum.at(after, nodes, long + 1)
            whole[nodes[lengths[long] == depth + 1]] = True
            parent[long] = nodes
        self.children = children
        self.first = first
        self.after = after
        self.whole = whole


def _ids(points: NDArray[np.uint32], vocabulary: Vocabulary) -> Integers:
    """Return the id of each code point in a vocabulary of characters."""
    distinct, inverse = np.unique(points, return_inverse=True)
    ids = np.array([0 if not point else vocabulary.encode(chr(point))[0] for point in distinct])
    return np.asarray(ids[inverse].reshape(points.shape))
