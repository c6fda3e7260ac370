"""Word confidence as the probability that the word is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asr.inference.logistic import logistic
from asr.results import Word
from asr.tables import Settings, about

LEAST = 1e-3  # probabilities are clipped to [LEAST, 1 − LEAST] before their logit is taken


@dataclass(frozen=True)
class Calibration(Settings):
    """A logistic function that gives word confidence; fitted by `recipes/confidence.py`.

    confidence = σ(bias + word · logit(p) + score · s), with p the geometric mean of the
    probabilities of the word's characters by the decoder, and s the score of the segment per
    token, end-of-sentence included: decoder, CTC and language model as weighted in the search.
    It holds for the search that it was fitted to.
    """

    bias: float = field(metadata=about("Constant."))
    word: float = field(metadata=about("Weight of the word's own probability."))
    score: float = field(metadata=about("Weight of the segment's score per token."))

    def __call__(self, words: Sequence[Word], score: float) -> list[Word]:
        """Return words with calibrated confidence. score: of their segment, per token."""
        confidences = self.probabilities(logit([word.confidence or 0.0 for word in words]), score)
        return [
            word._replace(confidence=float(confidence))
            for word, confidence in zip(words, confidences, strict=True)
        ]

    def probabilities(self, words: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """Return confidences (N,). words: (N,) logits. scores: per token of each segment, (N,)."""
        sums = self.bias + self.word * np.asarray(words) + self.score * np.asarray(scores)
        return logistic(sums)


def logit(probabilities: ArrayLike) -> NDArray[np.float64]:
    """Return log(p / (1 − p)), clipped."""
    clipped = np.clip(np.asarray(probabilities, np.float64), LEAST, 1 - LEAST)
    found: NDArray[np.float64] = np.log(clipped / (1 - clipped))
    return found
