"""What the training loop and its tasks exchange; the loop does not depend on what batches hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

WHOLE = slice(None)


class Term(NamedTuple):
    """A part of a loss: a mean over `size` tokens or frames of a batch, times its factor.

    value: with its factor and gradient. parts: means over the same things, for the log.
    """

    value: Tensor
    parts: dict[str, Tensor]
    size: Tensor | float


@dataclass(frozen=True)
class Losses:
    """The loss of a batch. amount: audio seconds or tokens in the batch.

    Each term says how many things it is a mean of, so that those of the shares of a batch, which
    several processes compute, can be combined to those of the whole batch.
    """

    terms: Sequence[Term]
    amount: float

    @property
    def total(self) -> Tensor:
        """The sum of the terms, to be minimised."""
        return reduce(Tensor.add, (term.value for term in self.terms))

    @property
    def parts(self) -> dict[str, Tensor]:
        """The parts of all terms, and the sum of the terms as `loss`."""
        merged = {name: value for term in self.terms for name, value in term.parts.items()}
        return {**merged, "loss": self.total}

    def weighted(self, shares: Sequence[float]) -> Losses:
        """Return the terms, each multiplied by a factor, as its parts are."""
        return Losses(
            [
                Term(
                    share * term.value,
                    {name: share * value for name, value in term.parts.items()},
                    term.size,
                )
                for term, share in zip(self.terms, shares, strict=True)
            ],
            self.amount,
        )


@dataclass(frozen=True)
class Validation:
    """Result of a validation: `figure` selects models (lower is better), the rest is logged."""

    figure: float
    metrics: dict[str, float]
    verdict: str
    picture: Path | None = None


class Task(Protocol):
    """The interface of a task."""

    unit: str  # of Losses.amount

    @property
    def model(self) -> nn.Module:
        """Return the module to train."""

    def begin(self) -> None:
        """Prepare the model for a new run; not called when a run is resumed."""

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch as lists of example indices; deterministic."""

    def make(self, epoch: int, position: int, indices: list[int], part: slice = WHOLE) -> Any:
        """Load a part of one batch: the examples `indices[part]`.

        Random choices for an example depend only on seed, epoch, position and its place in
        `indices`, so that a batch is the same however many processes share it.
        """

    def loss(self, batch: Any, step: int) -> Losses:
        """Return the loss of a batch."""

    def validate(self, step: int, folder: Path) -> Validation:
        """Decode the dev set without teacher forcing, and score it."""

    def save(self, folder: Path) -> None:
        """Write a model folder."""
