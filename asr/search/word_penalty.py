"""Word insertion penalty: a constant cost for each word of a text."""

from __future__ import annotations

import numpy as np

from asr.search.contract import Booleans, Floats, Integers, ScorerState
from asr.search.trees import take


class WordPenalty:
    """Subtracts `weight` nats at each space, so that long words compete with several short ones.

    A language model of word look-ahead gives a rare word less than the common words that sound
    alike. The state, (B, N), only keeps the shape.
    """

    shares = False
    bound = 0.0

    def __init__(self, space: int, tokens: int, weight: float) -> None:
        """Penalise the token `space` of a vocabulary of `tokens`; weight: nats, not negative."""
        self.weight = weight
        self._scores = np.zeros(tokens)
        self._scores[space] = -1.0

    def start(self, batch: int) -> ScorerState:
        """See `Scorer.start`."""
        return np.zeros((batch, 1))

    def scores(self, state: ScorerState) -> Floats:
        """See `Scorer.scores`."""
        return np.broadcast_to(self._scores, (*np.shape(state), len(self._scores)))

    def advance(
        self, state: ScorerState, parents: Integers, tokens: Integers, alive: Booleans
    ) -> ScorerState:
        """See `Scorer.advance`."""
        return np.zeros(parents.shape)

    def take(self, state: ScorerState, rows: Integers) -> ScorerState:
        """See `Scorer.take`."""
        return take(state, rows)
