"""What a decoder would write of itself: its internal language model, to be taken off its scores.

A decoder learns, beside how words sound, which words its training transcripts had. A language
model on top tells that a second time, and better; so the first telling is subtracted. It is what
the decoder says where every context is the mean of the utterance's annotations, in which no word
can be heard. Sources: Meng et al. 2021, "Internal language model estimation for domain-adaptive
end-to-end speech recognition"; Zeineldeen et al. 2021, "Investigating methods to improve language
model integration for attention-based encoder-decoder ASR models".
"""

from __future__ import annotations

from typing import Generic, NamedTuple

import torch
from torch import Tensor

from asr.search.contract import Memory, SearchDecoder, State
from asr.search.hypothesis import next_log_probabilities
from asr.text.vocabulary import EOS


class InternalState(NamedTuple, Generic[Memory, State]):
    """What the decoder says of the next token (B, N, V), having heard nothing in particular."""

    memory: Memory
    state: State
    log_probs: Tensor


class InternalModelScorer(Generic[Memory, State]):
    """−log p of the decoder's internal language model, so that its weight is subtracted.

    A score must not be above 0, so −log p counts up to `MOST` nats, less `MOST`: who uses the
    scorer gives back weight · MOST for each token, as length bonus. Where a text ends is left to
    the others.
    """

    shares = False
    MOST = 5.0

    def __init__(
        self, decoder: SearchDecoder[Memory, State], memory: Memory, weight: float
    ) -> None:
        """Make the scorer of one batch; memory: of one annotation an utterance, its mean."""
        self.weight = weight
        self._decoder = decoder
        self._memory = memory

    def start(self, batch: int) -> InternalState[Memory, State]:
        """See `Scorer.start`."""
        tokens = torch.full((batch, 1), EOS, device=self._memory.mask.device)
        return self._step(tokens, self._decoder.start(self._memory), self._memory)

    def scores(self, state: InternalState[Memory, State]) -> Tensor:
        """See `Scorer.scores`."""
        scores = state.log_probs.neg().clamp_max_(self.MOST) - self.MOST
        scores[..., EOS] = -self.MOST
        return scores

    def advance(
        self, state: InternalState[Memory, State], parents: Tensor, tokens: Tensor
    ) -> InternalState[Memory, State]:
        """See `Scorer.advance`."""
        return self._step(tokens, state.state.select(parents), state.memory)

    def _step(self, tokens: Tensor, state: State, memory: Memory) -> InternalState[Memory, State]:
        logits, state = self._decoder.step(tokens, state, memory)
        return InternalState(memory, state, next_log_probabilities(logits).double())
