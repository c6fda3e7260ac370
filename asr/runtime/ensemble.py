"""Several decoders as one: the mean of their probabilities at every step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from asr.attention.contract import Alignment, Annotations, Memory
from asr.models.decoder import Decoder
from asr.models.state import DecoderState


class EnsembleMemory(NamedTuple):
    """The memories of the members, in their order, of the same utterances."""

    members: tuple[Memory, ...]

    @property
    def values(self) -> Tensor:
        """Annotations (B, T, E) of the first member."""
        return self.members[0].values

    @property
    def mask(self) -> Tensor:
        """Where there is something to attend to (B, T): the same for all members."""
        return self.members[0].mask


class EnsembleState(NamedTuple):
    """The states of the members, in their order."""

    members: tuple[DecoderState, ...]

    @property
    def alignment(self) -> Alignment:
        """Where the members looked on the average, (B, N, T)."""
        alignments = [state.alignment for state in self.members]
        weights = torch.stack([each.weights for each in alignments]).mean(0)
        cumulative = torch.stack([each.cumulative for each in alignments]).mean(0)
        return Alignment(weights, cumulative)

    def select(self, index: Tensor) -> EnsembleState:
        """Reorder hypotheses; index (B, M), as in `DecoderState.select`."""
        return EnsembleState(tuple(state.select(index) for state in self.members))


class Ensemble:
    """Decoders of one vocabulary that vote; to a search they are one decoder.

    p(y_i) = 1/K Σ_k p_k(y_i). Every member keeps its own state and its own attention.
    """

    def __init__(self, members: Sequence[Decoder]) -> None:
        """Join decoders that know the same tokens.

        Raises ValueError when there are none.
        """
        if not members:
            raise ValueError("an ensemble needs a member")
        self.members = tuple(members)

    def prepare(self, annotations: Sequence[Annotations]) -> EnsembleMemory:
        """Make the memories of one batch from what each member's own encoder gave."""
        pairs = zip(self.members, annotations, strict=True)
        return EnsembleMemory(tuple(member.prepare(each) for member, each in pairs))

    def start(self, memory: EnsembleMemory) -> EnsembleState:
        """Return the states before the first step, with N = 1."""
        pairs = zip(self.members, memory.members, strict=True)
        return EnsembleState(tuple(member.start(each) for member, each in pairs))

    def step(
        self, token: Tensor, state: EnsembleState, memory: EnsembleMemory
    ) -> tuple[Tensor, EnsembleState]:
        """Take the last tokens (B, N) and give log-probabilities (B, N, V) of the next ones."""
        trios = zip(self.members, state.members, memory.members, strict=True)
        found = [member.step(token, own, its) for member, own, its in trios]
        logs = torch.stack([torch.log_softmax(logits.float(), dim=-1) for logits, _ in found])
        mean = logs.logsumexp(0) - math.log(len(found))
        return mean, EnsembleState(tuple(own for _, own in found))
