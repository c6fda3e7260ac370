"""Internal-LM subtraction: the decoder's own language model, subtracted from its scores.

A decoder also learns a prior over the texts of its training transcripts. An external language
model counts this prior twice, so an estimate of it is subtracted: the decoder's probabilities when
every context is the mean of the utterance's annotations. Sources: Meng et al. 2021, "Internal
language model estimation for domain-adaptive end-to-end speech recognition"; Zeineldeen et al.
2021, "Investigating methods to improve language model integration for attention-based
encoder-decoder ASR models".
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.search.contract import Booleans, Floats, Integers, SearchDecoder, State
from asr.search.trees import reorder
from asr.text.vocabulary import BLANK, EOS


class InternalState(NamedTuple, Generic[State]):
    """The internal model for the F live hypotheses of a batch, each as an utterance with N = 1.

    decoder, state: of F utterances. rows: (B, N), row of each hypothesis among them, arbitrary for
    a dead one. scores: (F, V).
    """

    decoder: SearchDecoder[State]
    state: State
    rows: Integers
    scores: NDArray[np.float32]


class InternalModelScorer(Generic[State]):
    """−log p of the decoder's internal language model; added with a weight, it is subtracted.

    −log p is limited to `MOST` nats. End-of-sentence scores 0: other scorers decide on it.
    """

    shares: Final = False
    MOST: Final = 5.0
    bound: Final = MOST

    def __init__(self, decoder: SearchDecoder[State], weight: float) -> None:
        """Make the scorer of one batch; decoder: bound to each utterance's mean annotation."""
        self.weight = weight
        self._decoder = decoder

    def start(self, batch: int) -> InternalState[State]:
        """See `Scorer.start`."""
        index = np.arange(batch)[:, None]
        return self._step(self._decoder, self._decoder.start(), np.full((batch, 1), EOS), index)

    def scores(self, state: InternalState[State]) -> Floats:
        """See `Scorer.scores`."""
        return state.scores[state.rows]

    def advance(
        self, state: InternalState[State], parents: Integers, tokens: Integers, alive: Booleans
    ) -> InternalState[State]:
        """See `Scorer.advance`."""
        rows = reorder(state.rows, parents)[alive]
        decoder, own = state.decoder.take(state.state, rows)
        index = np.zeros(parents.shape, np.int64)
        index[alive] = np.arange(len(rows))
        return self._step(decoder, own, tokens[alive][:, None], index)

    def take(self, state: InternalState[State], rows: Integers) -> InternalState[State]:
        """See `Scorer.take`."""
        return state._replace(rows=state.rows[rows])

    def _step(
        self, decoder: SearchDecoder[State], state: State, tokens: Integers, index: Integers
    ) -> InternalState[State]:
        log_probs, _, state = decoder.step(tokens, state)
        scores = np.minimum(-log_probs[:, 0], self.MOST)  # (F, V)
        scores[:, [BLANK, EOS]] = 0
        return InternalState(decoder, state, index, scores)
