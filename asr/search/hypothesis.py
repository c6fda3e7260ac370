"""The result of a search, and the record of its steps from which it is built.

Each step of the search is stored with its attention weights and, per hypothesis, the index of the
hypothesis that it extends. At the end the best paths are traced back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import StopReason


class Hypothesis(NamedTuple):
    """One text for one utterance. U tokens, T annotations (those of the batch, with padding).

    tokens: U ids, without the end-of-sentence token.
    log_probability: of the tokens and end-of-sentence by the decoder alone, in nats, for every
        stop reason.
    weights: (U + 1, T) float32, attention weights of each token and of end-of-sentence.
    stop_reason: "eos", ended by the decoder; "length", reached the limit; "repeat", stopped by
        the guard, with the repetition cut off.
    token_log_probabilities: U + 1 summands of log_probability, end-of-sentence last.
    score: by which the search ranked it (with scorers and length; for "repeat", before the cut).
    """

    tokens: list[int]
    log_probability: float
    weights: NDArray[np.float32]
    stop_reason: StopReason
    token_log_probabilities: list[float]
    score: float = 0.0


class Ending(NamedTuple):
    """The end of a hypothesis: in `slot` of the beam, before `step`.

    kept: number of its tokens to keep, from the first. score, reason: see `Hypothesis`.
    """

    score: float
    step: int
    slot: int
    kept: int
    reason: StopReason


class StepReport(NamedTuple):
    """One step of one utterance, from n hypotheses to m."""

    ends: list[float]  # [n] decoder's log-probability of end-of-sentence
    end_totals: list[float]  # [n] sum of each if it ends here
    tokens: list[int]  # [m], best first
    parents: list[int]
    totals: list[float]  # [m], −inf for a dead one
    log_probabilities: list[float]  # [m] by the decoder alone
    excess: list[int]  # [m] tokens that the guard cuts; 0 for one that may continue


class Step(NamedTuple):
    """One step of a search over b utterances.

    rows: utterance → its row in this step. weights: (b, n, T). reports: [b].
    """

    rows: Mapping[int, int]
    weights: NDArray[np.float32]
    reports: list[StepReport]

    def report(self, utterance: int) -> StepReport:
        """Return the report of an utterance."""
        return self.reports[self.rows[utterance]]


class History:
    """The steps of one search."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, step: Step) -> None:
        """Append the next step."""
        self._steps.append(step)

    def hypothesis(self, utterance: int, ending: Ending) -> Hypothesis:
        """Trace a hypothesis of an utterance back from its ending."""
        slot = ending.slot
        tokens: list[int] = []
        log_probabilities: list[float] = []
        slots = [slot]  # before each step, from the last to the first
        for step in reversed(self._steps[: ending.step]):
            report = step.report(utterance)
            tokens.append(report.tokens[slot])
            log_probabilities.append(report.log_probabilities[slot])
            slot = report.parents[slot]
            slots.append(slot)
        kept = ending.kept
        path = slots[::-1][: kept + 1]
        steps = self._steps[: kept + 1]
        summands = [*log_probabilities[::-1][:kept], steps[kept].report(utterance).ends[path[kept]]]
        weights = np.stack(
            [step.weights[step.rows[utterance], at] for step, at in zip(steps, path, strict=True)]
        )
        return Hypothesis(
            tokens[::-1][:kept],
            sum(summands),
            weights,
            ending.reason,
            summands,
            ending.score,
        )
