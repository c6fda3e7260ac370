"""The decoder's first state: computed from the annotations, or zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

from asr.attention.contract import Memory


def last_backward(memory: Memory) -> Tensor:
    """Return h⃖_1 (B, E/2), the backward half of the first annotation."""
    return memory.values[:, 0, memory.values.size(2) // 2 :]


def mean(memory: Memory) -> Tensor:
    """Return the mean (B, E) of the allowed annotations; 0 if there are none."""
    counts = memory.mask.sum(1, keepdim=True).clamp_min(1)
    return (memory.values * memory.mask[:, :, None]).sum(1) / counts


class LearntState(nn.Linear):
    """s_0 = tanh(W_s x + b), x a summary vector of the annotations.

    Source: x = h⃖_1 in Bahdanau et al. 2015, appendix A.2.2; their mean in Sennrich et al. 2017,
    "Nematus", section 2.
    """

    def __init__(self, summary: Callable[[Memory], Tensor], summary_size: int, size: int) -> None:
        super().__init__(summary_size, size)
        self.summary = summary

    def state(self, memory: Memory) -> Tensor:
        """Return (B, size)."""
        return torch.tanh(self(self.summary(memory)))


class ZeroState(nn.Module):
    """s_0 = 0: the decoder depends on the source only through attention."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def state(self, memory: Memory) -> Tensor:
        """Return (B, size)."""
        return memory.values.new_zeros(len(memory.values), self.size)


SUMMARIES: Mapping[str, Callable[[Memory], Tensor]] = MappingProxyType(
    {"last_backward": last_backward, "mean": mean}
)


def initial_state(kind: str, annotation_size: int, size: int) -> LearntState | ZeroState:
    """Build the module that computes the first state; kind: in `SUMMARIES`, or "zero"."""
    if kind == "zero":
        return ZeroState(size)
    share = annotation_size // 2 if kind == "last_backward" else annotation_size
    return LearntState(SUMMARIES[kind], share, size)
