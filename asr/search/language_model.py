"""Shallow fusion: the log-probabilities of a language model, added to the decoder's."""

from __future__ import annotations

from asr.search.contract import Booleans, Floats, Integers, LanguageModel, ScorerState
from asr.search.trees import take


class LanguageModelScorer:
    """A language model, added to the decoder's scores (shallow fusion, Gulcehre et al. 2015)."""

    shares = False
    bound = 0.0

    def __init__(self, model: LanguageModel, weight: float) -> None:
        self.model = model
        self.weight = weight

    def start(self, batch: int) -> ScorerState:
        """See `Scorer.start`."""
        return self.model.start(batch)

    def scores(self, state: ScorerState) -> Floats:
        """See `Scorer.scores`."""
        return self.model.log_probs(state)

    def advance(
        self, state: ScorerState, parents: Integers, tokens: Integers, alive: Booleans
    ) -> ScorerState:
        """See `Scorer.advance`."""
        return self.model.advance(state, parents, tokens, alive)

    def take(self, state: ScorerState, rows: Integers) -> ScorerState:
        """See `Scorer.take`."""
        return take(state, rows)
