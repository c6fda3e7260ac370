"""A lexicon as a prefix tree: the words that start with a given prefix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import ge

import numpy as np
from numpy.typing import NDArray

from asr.lm.characters import Texts
from asr.text.vocabulary import BLANK, Vocabulary

Integers = NDArray[np.int64]


class Lexicon:
    """A prefix tree of sorted words; the words with one prefix have consecutive numbers.

    Nodes are prefixes: 0 is the empty prefix, −1 stands for one that no word has.

    first, after: (nodes,), the words with this prefix are first … after − 1. whole: (nodes,) bool,
    whether the prefix is itself a word, which is then `first`. Edges are kept as a sorted list,
    because most prefixes have one or two, not one for each character.
    """

    def __init__(self, words: Sequence[str], vocabulary: Vocabulary) -> None:
        """Build the tree of words, spelt in the characters of a vocabulary.

        Raises:
            ValueError: no words, not sorted, or one occurs twice.
        """
        if not words or any(map(ge, words, islice(words, 1, None))):
            raise ValueError("a lexicon needs at least one word, and its words sorted, each once")
        spelt = spell(words, vocabulary)
        lengths = spelt.lengths
        inside = np.arange(lengths.max()) < lengths[:, None]  # one column per character
        characters = np.zeros(inside.shape, np.int32)
        characters[inside] = spelt.tokens
        # Words are compared by their code points, 0 after the end: a vocabulary may lack some.
        points = np.zeros(inside.shape, np.uint32)
        points[inside] = _points(words)
        shared = np.zeros(len(words), np.int64)  # characters shared with the word before
        shared[1:] = np.logical_and.accumulate(points[1:] == points[:-1], axis=1).sum(1)
        first_new = 1 + np.concatenate([[0], np.cumsum(lengths - shared)])  # node of each word
        count = int(first_new[-1])
        first, after = np.zeros((2, count + 1), np.int64)  # the last row: node −1
        whole = np.zeros(count + 1, np.bool_)
        after[0] = len(words)
        edges: list[tuple[Integers, Integers]] = []  # codes and nodes, for each depth
        parent = np.zeros(len(words), np.int64)
        for depth in range(int(lengths.max())):
            long = np.flatnonzero(lengths > depth)
            new = shared[long] <= depth
            # A prefix shared with the word before has the node created for an earlier word.
            creator = np.maximum.accumulate(np.where(new, np.arange(len(long)), 0))
            nodes = first_new[long[creator]] + depth - shared[long[creator]]
            created = long[new]
            codes = parent[created] * len(vocabulary) + characters[created, depth]
            edges.append((codes, nodes[new]))
            first[nodes[new]] = created
            after[nodes] = long + 1  # of the last word with this prefix
            whole[nodes[lengths[long] == depth + 1]] = True
            parent[long] = nodes
        ends = np.flatnonzero(whole)
        edges.append((ends * len(vocabulary) + BLANK, ends))
        codes, nodes = map(np.concatenate, zip(*edges, strict=True))
        order = codes.argsort(kind="stable")
        codes, nodes = codes[order], nodes[order]
        last = np.append(codes[1:] != codes[:-1], True)  # characters that became UNK share an edge
        begin = np.searchsorted(codes[last], np.arange(count + 2) * len(vocabulary))
        # 32 bits suffice for codes, of node · V + character, and halve the memory.
        self.first, self.after = first.astype(np.int32), after.astype(np.int32)
        self.whole = whole
        self._size = len(vocabulary)
        self._codes, self._nodes = codes[last].astype(np.int32), nodes[last].astype(np.int32)
        self._begin, self._counts = begin[:-1].astype(np.int32), np.diff(begin).astype(np.int32)

    def child(self, node: Integers, characters: Integers) -> Integers:
        """Return the node (F,) of each prefix with one more character, or −1."""
        code = (node * self._size + characters).astype(np.int32)
        place = np.searchsorted(self._codes, code)
        np.minimum(place, len(self._codes) - 1, out=place)
        return np.where(self._codes[place] == code, self._nodes[place], -1)

    def continuations(self, node: Integers) -> tuple[Integers, Integers, Integers]:
        """Return how the prefixes of nodes (F,) go on: rows of `node`, characters, new nodes.

        All (E,), by row and character. A prefix that is a word also has the blank, with its own
        node.
        """
        counts = self._counts[node]
        rows = np.repeat(np.arange(len(node)), counts)
        before = counts.cumsum() - counts  # edges of the rows before
        edges = np.arange(len(rows)) + np.repeat(self._begin[node] - before, counts)
        return rows, self._codes[edges] % self._size, self._nodes[edges]


def spell(words: Sequence[str], vocabulary: Vocabulary) -> Texts:
    """Spell words in the characters of a vocabulary; unknown ones become UNK."""
    points = _points(words)
    ids = np.zeros(int(points.max(initial=0)) + 1, np.int64)
    found = np.flatnonzero(np.bincount(points))
    ids[found] = [vocabulary.encode(chr(point))[0] for point in found.tolist()]
    return Texts(ids[points], np.fromiter(map(len, words), np.int64, len(words)))


def _points(words: Sequence[str]) -> NDArray[np.uint32]:
    """Return the code points of all words, joined."""
    return np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
