"""The interfaces of the search: decoder, scorer and language model, with NumPy arrays.

Letters: B utterances, N hypotheses of each, V tokens, T annotations.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]

State = TypeVar("State")


class Stepped(NamedTuple, Generic[State]):
    """The result of one decoder step.

    log_probs: (B, N, V) float32, of the next token; new memory, which the search may overwrite.
    weights: (B, N, T) float32, attention weights of this step; never overwritten.
    """

    log_probs: NDArray[np.float32]
    weights: NDArray[np.float32]
    state: State


class SearchDecoder(Protocol[State]):
    """A decoder bound to the memory of one batch. Its state is opaque to the search.

    No method changes the decoder or a state; each returns a new one. The state may stay on a
    device, and a search may continue from any earlier state.
    """

    @property
    def utterances(self) -> int:
        """B."""

    def start(self) -> State:
        """Return the state before the first step, with N = 1."""

    def step(self, tokens: Integers, state: State, alive: Booleans | None = None) -> Stepped[State]:
        """Advance each hypothesis by its last token, (B, N).

        alive: (B, N), False where the results are not used: they may be any numbers but NaN. None
        for all.
        """

    def select(self, state: State, parents: Integers) -> State:
        """Reorder hypotheses: the m-th new one is the old one parents[b, m]; parents (B, M)."""

    def take(self, state: State, rows: Integers) -> tuple[Self, State]:
        """Return decoder and state of the utterances rows (b,), in which one may occur twice."""


# The state of a scorer for B × N hypotheses; opaque to the search.
ScorerState: TypeAlias = Any


class Scorer(Protocol):
    """Scores each next token during a beam search.

    The search ranks hypotheses by the sum over steps of

        (1 − Σ w_i) · log p_decoder(y) + Σ w_i · score_i(y) + Σ w_k · score_k(y)

    where i runs over the scorers that share the decoder's weight (CTC, which scores the same
    audio) and k over those that are added (language models, which do not). With one of each this is
    (1 − λ) · attention + λ · CTC + β · LM (Watanabe et al. 2017, "Hybrid CTC/attention
    architecture for end-to-end speech recognition").

    weight: factor of the scores, not negative.
    shares: True if the weight is subtracted from the decoder's, False if it is added.
    bound: upper bound of any score, in nats, at least 0; 0 for log-probabilities. The search uses
        it to stop once no live hypothesis can still win.
    """

    @property
    def weight(self) -> float: ...

    @property
    def shares(self) -> bool: ...

    @property
    def bound(self) -> float: ...

    def start(self, batch: int) -> ScorerState:
        """Return the state before the first token, with N = 1 hypothesis per utterance."""
        ...

    def scores(self, state: ScorerState) -> Floats:
        """Return the scores (B, N, V) of all next tokens, in nats; EOS ends the text."""
        ...

    def advance(
        self, state: ScorerState, parents: Integers, tokens: Integers, alive: Booleans
    ) -> ScorerState:
        """Append tokens[b, m] to hypothesis parents[b, m]; all (B, M).

        alive: False where the scores of the new hypothesis are not used and may be arbitrary.
        """
        ...

    def take(self, state: ScorerState, rows: Integers) -> ScorerState:
        """Return the state of the utterances rows (b,)."""
        ...


class LanguageModel(Protocol):
    """A language model that `LanguageModelScorer` can add to a search.

    States are nested tuples of arrays (B, N, …).
    """

    def start(self, batch: int) -> ScorerState:
        """Return the state at the start of a text, with N = 1 text per utterance."""
        ...

    def log_probs(self, state: ScorerState) -> Floats:
        """Return the log-probabilities (B, N, V) of the next token, end-of-sentence at id EOS."""
        ...

    def advance(
        self,
        state: ScorerState,
        parents: Integers,
        tokens: Integers,
        alive: Booleans | None = None,
    ) -> ScorerState:
        """Append tokens, as in `Scorer.advance`; alive: None for all."""
        ...
