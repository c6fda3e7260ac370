"""Contextual biasing: words to favour, as a scorer of the beam search.

Each character along a favoured word gets a bonus, which is taken back if the word is not completed,
so that only hypotheses with the whole word gain. Source: Zhao et al. 2019, "Shallow-fusion
end-to-end contextual biasing" (bonus and its subtraction), on an automaton of Aho and Corasick 1975
whose matches begin and end at the boundaries of words.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from asr.search.contract import Booleans, Floats, Integers
from asr.search.trees import reorder, take
from asr.text.vocabulary import BLANK, EOS

_START: Final = 0  # at the beginning of a word, nothing matched
_ELSE: Final = 1  # within a word that is none of the favoured ones


class HotwordGraph:
    """The automaton of favoured words and phrases; its scores are in matched characters.

    follow: (nodes, V), the node after a token. scores: (nodes, V) float32, the characters that a
    token gains or takes back: 1 within a favoured word, more where the end of a phrase begins
    another phrase ("york" in "new york" and "york times").
    """

    def __init__(self, words: Iterable[Sequence[int]], space: int, size: int) -> None:
        """Build the automaton of words spelt in tokens; a phrase has the token `space` inside.

        size: V, of the vocabulary.

        Raises:
            ValueError: a word is empty.
        """
        children, ends = _tree(words)
        nodes = len(children)
        self.follow: Integers = np.full((nodes, size), _ELSE)
        self.follow[:, space] = _START
        depth, pending, kept = np.zeros((3, nodes), np.int64)  # in characters, of each node
        fallback = np.full(nodes, _START)  # the longest other match that ends here
        complete = np.zeros(nodes, np.int64)  # length of the longest word that ends here
        queue = deque([_START])
        while queue:  # breadth first: the fallback of a node is done before the node
            node = queue.popleft()
            if node != _START:
                self.follow[node] = self.follow[fallback[node]]
                complete[node] = depth[node] if ends[node] else complete[fallback[node]]
                kept[node] = min(complete[node], pending[node])
            for token, child in children[node].items():
                depth[child] = depth[node] + 1
                pending[child] = 1 + pending[node] - (kept[node] if token == space else 0)
                is_first = node == _START
                fallback[child] = _ELSE if is_first else self.follow[fallback[node], token]
                self.follow[node, token] = child
                queue.append(child)
        scores = pending[self.follow] - pending[:, None]
        scores[:, space] += kept
        scores[:, EOS] = kept - pending
        scores[:, BLANK] = 0
        self.scores: Floats = scores.astype(np.float32)

    def characters(self, tokens: Sequence[int]) -> float:
        """Return the number of characters of favoured words in a text that has ended."""
        node, total = _START, 0.0
        for token in [*tokens, EOS]:
            total += float(self.scores[node, token])
            node = int(self.follow[node, token])
        return total


def _tree(words: Iterable[Sequence[int]]) -> tuple[list[dict[int, int]], list[bool]]:
    """Return the children of each node by token, and whether a word ends there."""
    children: list[dict[int, int]] = [{}, {}]
    ends = [False, False]
    for word in words:
        if not word:
            raise ValueError("an empty word cannot be favoured")
        node = _START
        for token in word:
            if token not in children[node]:
                children[node][token] = len(children)
                children.append({})
                ends.append(False)
            node = children[node][token]
        ends[node] = True
    return children, ends


class HotwordScorer:
    """The words of a graph, favoured by `weight` nats a character."""

    shares: Final = False

    def __init__(self, graph: HotwordGraph, weight: float) -> None:
        self.weight = weight
        self.bound = float(graph.scores.max())
        self._graph = graph

    def start(self, batch: int) -> Integers:
        """See `Scorer.start`; the state is the node (B, N) of each hypothesis."""
        return np.full((batch, 1), _START)

    def scores(self, state: Integers) -> Floats:
        """See `Scorer.scores`."""
        return self._graph.scores[state]

    def advance(
        self, state: Integers, parents: Integers, tokens: Integers, alive: Booleans
    ) -> Integers:
        """See `Scorer.advance`."""
        nodes = reorder(state, parents)
        return self._graph.follow[nodes, tokens]

    def take(self, state: Integers, rows: Integers) -> Integers:
        """See `Scorer.take`."""
        return take(state, rows)
