"""What a search returns, and the record that it keeps on the way to build it.

Nothing is joined up during the search: each step leaves its tensors of weights where they are
and notes, per hypothesis, from which one it came. The path is read backwards at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from asr.results import StopReason
from asr.text.vocabulary import BLANK

_DONE_SHARE: Final = 1 / 8  # of the rows, before they are taken out

Tree = TypeVar("Tree")


class Hypothesis(NamedTuple):
    """One text for one utterance. U tokens, T annotations (those of the batch, with padding).

    tokens: U ids, without the end-of-sentence token.
    log_probability: what the decoder alone gives to the tokens followed by end-of-sentence, in
        nats; whatever the stop reason, so hypotheses can be compared.
    weights: (U + 1, T), where the decoder looked for each token and for end-of-sentence.
    stop_reason: "eos", the decoder ended it; "length", the limit did; "repeat", it went in
        circles, and what was said more than once in the circle is cut off.
    token_log_probabilities: U + 1 summands of log_probability, end-of-sentence last.
    score: what the search ranked it by (scorers and length included; for "repeat", before the
        cut); greedy search has nothing to rank by and puts log_probability there.
    """

    tokens: list[int]
    log_probability: float
    weights: Tensor
    stop_reason: StopReason
    token_log_probabilities: list[float]
    score: float = 0.0


class Ending(NamedTuple):
    """How a hypothesis ended: in which `slot` of the beam before which `step`.

    kept: how many of its tokens to keep, from the first. score, reason: see `Hypothesis`.
    """

    score: float
    step: int
    slot: int
    kept: int
    reason: StopReason


class Step(NamedTuple):
    """One step of a search over b utterances, from n hypotheses each to m.

    rows: utterance → its row in this step. weights: (b, n, T). ends: [b][n], log-probability of
    end-of-sentence. parents, tokens, log_probabilities: [b][m], of the m that were chosen.
    """

    rows: Mapping[int, int]
    weights: Tensor
    ends: list[list[float]]
    parents: list[list[int]]
    tokens: list[list[int]]
    log_probabilities: list[list[float]]


class History:
    """The steps of one search, and the hypotheses that lie in them."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, step: Step) -> None:
        """Note the next step."""
        self._steps.append(step)

    def hypothesis(self, utterance: int, ending: Ending) -> Hypothesis:
        """Read a hypothesis of an utterance backwards from its ending."""
        slot = ending.slot
        tokens: list[int] = []
        log_probabilities: list[float] = []
        slots = [slot]  # in front of each step, from the last to the first
        for step in reversed(self._steps[: ending.step]):
            row = step.rows[utterance]
            tokens.append(step.tokens[row][slot])
            log_probabilities.append(step.log_probabilities[row][slot])
            slot = step.parents[row][slot]
            slots.append(slot)
        kept = ending.kept
        path = slots[::-1][: kept + 1]
        steps = self._steps[: kept + 1]
        rows = [step.rows[utterance] for step in steps]
        end = steps[kept].ends[rows[kept]][path[kept]]
        summands = [*log_probabilities[::-1][:kept], end]
        weights = torch.stack(
            [step.weights[row, at] for step, row, at in zip(steps, rows, path, strict=True)]
        )
        return Hypothesis(
            tokens[::-1][:kept],
            sum(summands),
            weights,
            ending.reason,
            summands,
            ending.score,
        )


def next_log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax of logits (B, N, V) in float32; the blank is no token: −inf, not renormalised."""
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    log_probabilities[..., BLANK] = -torch.inf
    return log_probabilities


def check_limits(limits: Tensor, utterances: int) -> list[int]:
    """Return the limits (B,) as numbers.

    Raises:
        ValueError: not one limit an utterance, or a negative one.
    """
    if limits.shape != (utterances,):
        raise ValueError(f"limits must be ({utterances},), one an utterance; got {limits.shape}")
    numbers = [int(limit) for limit in limits.tolist()]
    if any(limit < 0 for limit in numbers):
        raise ValueError(f"limits must not be negative, got {min(numbers)}")
    return numbers


def should_thin(left: int, rows: int) -> bool:
    """Whether enough of the rows are done to pay for a copy of those `left`."""
    return 0 < left <= (1 - _DONE_SHARE) * rows


def take(tree: Tree, rows: Tensor) -> Tree:
    """Keep some utterances: rows (b,) of every tensor (B, …) in nested tuples."""
    return change(lambda each: each[rows], tree)


def reorder(tree: Tree, parents: Tensor) -> Tree:
    """Reorder hypotheses: m-th = old parents[b, m], in every tensor (B, N, …) of nested tuples."""
    batch = torch.arange(len(parents), device=parents.device)[:, None]
    return change(lambda each: each[batch, parents], tree)


def change(function: Callable[..., Tensor], tree: Tree, *others: Tree) -> Tree:
    """Put function(tensor, …) in place of every tensor of nested tuples; others: of its shape."""
    if isinstance(tree, Tensor):
        return cast(Tree, function(tree, *others))
    parts = zip(*(cast(tuple[object, ...], each) for each in (tree, *others)), strict=True)
    changed = [change(function, *each) for each in parts]
    kind = type(tree)  # a NamedTuple takes its parts one by one
    return cast(Tree, kind(*changed) if hasattr(tree, "_fields") else tuple(changed))
