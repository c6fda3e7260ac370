"""An ensemble of decoders: the mean of their probabilities at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asr.search.contract import Booleans, Integers, SearchDecoder, Stepped

States = tuple[Any, ...]  # one of each member, in their order


class Ensemble:
    """A `SearchDecoder` made of decoders with one vocabulary, bound to the same utterances.

    p(y_i) = 1/K Σ_k p_k(y_i). Each member has its own state and attention; the weights are the
    mean of the members' weights. The members may use different engines.
    """

    def __init__(self, members: Sequence[SearchDecoder[Any]]) -> None:
        """Make an ensemble of decoders.

        Raises:
            ValueError: no decoder.
        """
        if not members:
            raise ValueError("an ensemble needs at least one decoder, got none")
        self.members = tuple(members)

    @property
    def utterances(self) -> int:
        """See `SearchDecoder.utterances`."""
        return self.members[0].utterances

    def start(self) -> States:
        """See `SearchDecoder.start`."""
        return tuple(member.start() for member in self.members)

    def step(
        self, tokens: Integers, state: States, alive: Booleans | None = None
    ) -> Stepped[States]:
        """See `SearchDecoder.step`."""
        pairs = zip(self.members, state, strict=True)
        found = [member.step(tokens, own, alive) for member, own in pairs]
        log_probs = _log_mean_exp([each.log_probs for each in found])
        weights = np.mean([each.weights for each in found], axis=0)
        return Stepped(log_probs, weights, tuple(each.state for each in found))

    def select(self, state: States, parents: Integers) -> States:
        """See `SearchDecoder.select`."""
        pairs = zip(self.members, state, strict=True)
        return tuple(member.select(own, parents) for member, own in pairs)

    def take(self, state: States, rows: Integers) -> tuple[Ensemble, States]:
        """See `SearchDecoder.take`."""
        taken = [member.take(own, rows) for member, own in zip(self.members, state, strict=True)]
        return Ensemble([member for member, _ in taken]), tuple(own for _, own in taken)


def _log_mean_exp(values: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return log(1/K Σ_k exp(values_k)) of K arrays."""
    greatest = np.maximum.reduce(values)
    np.maximum(greatest, np.finfo(np.float32).min, out=greatest)  # where all are −inf
    total = np.exp(values[0] - greatest)
    for each in values[1:]:
        total += np.exp(each - greatest)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total / np.float32(len(values))) + greatest)
