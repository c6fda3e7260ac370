"""No attention: the fixed context of the classical encoder–decoder, the same at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from asr.attention.contract import Alignment, Annotations, Attention, Memory
from asr.attention.normalizers import at_least_float32

SUMMARIES = ("last", "mean")


class FixedContext(Attention):
    """The context is the last allowed annotation, or the mean of all.

    It has no energies and thus no normaliser and no window. Source: Cho et al. 2014, section 2.2,
    and Sutskever et al. 2014 use the last; Bahdanau et al. 2015 compare with it.
    """

    def __init__(self, query_size: int, annotation_size: int, summary: str = "last") -> None:
        """Make the mechanism; the sizes are not used.

        summary: "last" or "mean".
        """
        super().__init__()
        if summary not in SUMMARIES:
            raise ValueError(f"summary {summary!r} is not one of: {', '.join(SUMMARIES)}")
        self.summary = summary

    def prepare(self, annotations: Annotations) -> Memory:
        """Compute the weights of all steps, stored as the key of each position (B, T, 1)."""
        counted = annotations.mask
        if self.summary == "last":
            after = counted.flip(1).cumsum(1).flip(1)  # (B, T), allowed positions from each on
            counted = counted & (after == 1)
        weights = counted / counted.sum(1, keepdim=True).clamp_min(1)  # (B, T)
        keys = weights.to(at_least_float32(annotations.values).dtype)[..., None]
        return Memory(annotations.values, annotations.mask, keys)

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Return the same context (B, N, E) for every query (B, N, H)."""
        weights = memory.keys.transpose(1, 2)  # (B, 1, T)
        context = torch.bmm(weights.to(memory.values.dtype), memory.values)  # (B, 1, E)
        hypotheses = query.size(1)
        return (
            context.expand(-1, hypotheses, -1),
            previous.advance(weights.expand(-1, hypotheses, -1)),
        )
