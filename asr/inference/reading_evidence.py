"""The probability that a word of a page was read as printed, from several pieces of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from asr.inference.logistic import logistic

LEAST: Final = -20.0  # nats; lower bound of each log-probability, so that none decides alone
LEAST_DOUBT: Final = 1e-3  # lower bound of 1 − confidence, likewise
# Upper bound of a word's characters, likewise: with more, a word such as 77,777 ("seventy seven
# thousand …") would count as read with the lowest of both log-probabilities.
MOST_CHARACTERS: Final = 14


class Evidence(NamedTuple):
    """What speaks for a word having been read as printed.

    margin: log-probability of its CTC path minus that of the best symbols of the same frames, in
    nats. decoder: its log-probability by the decoder, after the words before it. agrees: whether
    free decoding found the same word there. rival: confidence of the words it found instead, the
    lowest of them; 0 if it agrees or found none. characters: of the word.
    """

    margin: float
    decoder: float
    agrees: bool
    rival: float
    characters: int


NOT_SAID: Final = Evidence(LEAST, LEAST, agrees=False, rival=0.0, characters=0)


@dataclass(frozen=True)
class Judge:
    """A logistic function of the evidence, fitted by `benchmarks/reading.py --fit`."""

    bias: float = 3.78
    margin: float = 0.11
    decoder: float = 0.31
    agrees: float = 4.86
    rival: float = 1.31
    characters: float = 0.41

    def probability(self, evidence: Evidence) -> float:
        """Return the probability that a word was read as printed."""
        return float(logistic(np.dot(self.weights, features(evidence))))

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of `features`."""
        return (self.bias, self.margin, self.decoder, self.agrees, self.rival, self.characters)


FITTED: Final = Judge()


def features(evidence: Evidence) -> tuple[float, ...]:
    """Return the summands of the logistic function, the constant first."""
    return (
        1.0,
        max(LEAST, evidence.margin),
        max(LEAST, evidence.decoder),
        float(evidence.agrees),
        float(np.log(max(LEAST_DOUBT, 1 - evidence.rival))),
        float(min(MOST_CHARACTERS, evidence.characters)),
    )
