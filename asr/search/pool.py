"""The hypotheses of one utterance that have ended, and the test whether its search may stop."""

from __future__ import annotations

import math

from asr.errors import UserError
from asr.results import StopReason
from asr.search.hypothesis import Ending, StepReport
from asr.search.options import BeamSettings
from asr.text.vocabulary import EOS


class Pool:
    """The hypotheses of one utterance that have ended.

    done: whether no other hypothesis can still win.

    gain: most nats that a step can add to a sum.
    """

    def __init__(self, settings: BeamSettings, limit: int, best: int, gain: float = 0.0) -> None:
        self.done = False
        self._settings = settings
        self._limit = limit
        self._best = best
        self._gain = gain
        self._ended: list[Ending] = []
        self._looping: list[Ending] = []

    def add(self, step: int, report: StepReport) -> None:
        """Add the hypotheses that ended at a step, before which each text has `step` tokens."""
        if self.done:
            return
        if step == self._limit:
            self._end_all(step, report)
            self.done = True
            return
        live = -math.inf
        for slot, total in enumerate(report.totals):
            if not total > -math.inf:  # dead, or NaN
                continue
            if report.tokens[slot] == EOS:
                score = self._settings.rank(total, step)
                self._ended.append(Ending(score, step, report.parents[slot], step, StopReason.EOS))
            elif report.excess[slot]:
                kept = step + 1 - report.excess[slot]
                score = self._settings.rank(total, step + 1)
                self._looping.append(Ending(score, step + 1, slot, kept, StopReason.REPEAT))
            else:
                live = max(live, total)
        self.done = live == -math.inf or self._unbeatable(live, step + 1)

    def best(self) -> list[Ending]:
        """Return the best that have ended, best first, then those that the guard stopped.

        Raises:
            UserError: none has ended, which only happens if scores are NaN.
        """
        by_score = [
            *sorted(self._ended, key=lambda ending: -ending.score),
            *sorted(self._looping, key=lambda ending: -ending.score),
        ]
        if not by_score:
            raise UserError(
                "the scores of the search are not numbers: the weights of the model, or of its "
                "language model, are damaged"
            )
        return by_score[: self._best]

    def _end_all(self, step: int, report: StepReport) -> None:
        """End every live hypothesis, with "eos" where the search chose end-of-sentence."""
        chosen = {
            parent
            for parent, token, total in zip(
                report.parents, report.tokens, report.totals, strict=True
            )
            if token == EOS and total > -math.inf
        }
        for slot, total in enumerate(report.end_totals):
            if total > -math.inf:
                reason = StopReason.EOS if slot in chosen else StopReason.LENGTH
                score = self._settings.rank(total, step)
                self._ended.append(Ending(score, step, slot, step, reason))

    def _unbeatable(self, live: float, length: int) -> bool:
        """Return whether no live hypothesis can still win; live: their best sum."""
        if len(self._ended) < self._best:
            return False
        scores = sorted((ending.score for ending in self._ended), reverse=True)
        too_far = self._settings.rank(live + self._settings.width + self._gain, length) < scores[0]
        lowest = scores[self._best - 1]
        bound = self._settings.bound(live, length, self._limit, self._gain)
        return too_far or bound <= lowest
