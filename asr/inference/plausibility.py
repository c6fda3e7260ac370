"""Whether a text was spoken: the probability that a segment is English speech."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.inference.logistic import logistic
from asr.results import StopReason, Word
from asr.scoring.sequences import lcs_ratio
from asr.search.ctc_path import ctc_greedy
from asr.search.hypothesis import Hypothesis
from asr.tables import Settings, about
from asr.text.vocabulary import BLANK

LEAST_ENGLISH: Final = 0.5  # below it a recording is warned of, and a segment is marked
_LOOPS: Final = (StopReason.REPEAT, StopReason.LENGTH)
_MOST_LONGER: Final = 2.0  # factor by which a text and the best CTC path may differ in length, …
_SPARE: Final = 10  # … and characters besides, for short texts
SLOWEST_SPEECH: Final = 4.0  # characters per second; the slowest LibriSpeech readers have 5
_SHORT: Final = 3.0  # seconds of speech; noise taken for speech was at most 2.8 s long
_SHORTEST: Final = 1.0  # seconds of speech; the text of a shorter piece must be likely
_SLOW: Final = 6.0  # characters per second; a doubtful text that is slower must be likely, too
_LIKELY: Final = 0.3  # least confidence of a likely word
_EXPECTED: Final = 0.25  # least share of right words that is expected of a likely text


class TextEvidence(NamedTuple):
    """What distinguishes a text that was spoken from an invented one.

    log_probability: by the decoder, per token, in nats. score: of the search, per token.
    agreement: longest common subsequence of the text and the best CTC path, as a share of the
    longer one. certainty: mean log-probability of the symbols of that path. length: log of the
    number of tokens.
    """

    log_probability: float
    score: float
    agreement: float
    certainty: float
    length: float

    @classmethod
    def of(cls, found: Hypothesis, ctc: NDArray[np.float32]) -> TextEvidence:
        """Return the evidence of a hypothesis; ctc: (T', V) log-probabilities of its audio."""
        path = _best_path(ctc)
        steps = len(found.tokens) + 1
        return cls(
            found.log_probability / steps,
            found.score / steps,
            lcs_ratio(path, found.tokens),
            _certainty(ctc),
            float(np.log(steps)),
        )


@dataclass(frozen=True)
class Plausibility(Settings):
    """A logistic function of the `TextEvidence` of a segment; fitted by `recipes/guard.py`.

    It gives the probability that the segment is English speech, and holds for the search that it
    was fitted to.
    """

    bias: float = field(metadata=about("Constant."))
    log_probability: float = field(metadata=about("Weight of the decoder's score per token."))
    score: float = field(metadata=about("Weight of the search's score per token."))
    agreement: float = field(metadata=about("Weight of the agreement of decoder and CTC."))
    certainty: float = field(metadata=about("Weight of the certainty of CTC."))
    length: float = field(metadata=about("Weight of the logarithm of the length."))

    def __call__(self, evidence: TextEvidence) -> float:
        """Return the probability that a segment is English speech."""
        weights = [getattr(self, name) for name in TextEvidence._fields]
        total = self.bias + float(np.dot(weights, evidence))
        return float(logistic(total))


def is_without_sound(found: Hypothesis, ctc: NDArray[np.float32] | None) -> bool:
    """Return whether a text is a loop, or much longer or shorter than the best CTC path.

    ctc: (T', V) log-probabilities of its audio; without them only loops are found.
    """
    if found.stop_reason in _LOOPS:
        return True
    if ctc is None:
        return False
    shorter, longer = sorted((len(_best_path(ctc)), len(found.tokens)))
    return longer > _MOST_LONGER * shorter + _SPARE


def is_slow_by_ctc(ctc: NDArray[np.float32] | None, seconds: float) -> bool:
    """Return whether the text of a piece was read from noise, by CTC alone.

    It was if the characters on the best CTC path, times their probability (geometric mean), are
    fewer than in the slowest speech. The decoder is not used: it is also a language model, and in
    noise gives texts such as "if you" a high probability. The rule holds for every search, and only
    for short pieces: noise is seldom taken for long speech.
    ctc: (T', V) log-probabilities of the audio; without them nothing is noise. seconds: of speech.
    """
    if ctc is None or seconds >= _SHORT:
        return False
    certain = len(_best_path(ctc)) * np.exp(_certainty(ctc))
    return bool(certain < SLOWEST_SPEECH * seconds)


def is_guess(words: Sequence[Word], seconds: float, *, is_cut: bool, is_doubtful: bool) -> bool:
    """Return whether the text of a piece is only guessed: unlikely, with little sound or text.

    A text is unlikely if no word is likely, or less than a quarter of the words is expected to be
    right. It is only guessed in a very short piece cut out of a longer recording, or if it is
    doubtful and short, or slower than speech usually is. words: with calibrated confidence.
    seconds: of speech.
    """
    shares = [word.confidence or 0.0 for word in words]
    if shares and max(shares) >= _LIKELY and sum(shares) >= _EXPECTED * len(shares):
        return False
    characters = len(" ".join(word.text for word in words))
    is_little = seconds < _SHORT or characters < _SLOW * seconds
    return (is_cut and seconds < _SHORTEST) or (is_doubtful and is_little)


def is_doubtful(found: Hypothesis, ctc: NDArray[np.float32] | None, english: float | None) -> bool:
    """Return whether the text of a segment is likely to be invented; ctc: see `is_without_sound`.

    english: the score of the segment, None if it has none.
    """
    return is_without_sound(found, ctc) or (english is not None and english < LEAST_ENGLISH)


def _best_path(ctc: NDArray[np.float32]) -> list[int]:
    (path,) = ctc_greedy(ctc[None], np.array([len(ctc)]))
    return path


def _certainty(ctc: NDArray[np.float32]) -> float:
    """Return the mean log-probability of the frames with a symbol on the best path; 0 without."""
    best = ctc.max(-1)[ctc.argmax(-1) != BLANK]
    return float(best.mean()) if len(best) else 0.0
