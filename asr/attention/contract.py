"""The interface of every attention mechanism: its inputs and outputs.

Letters: B utterances, T annotations of each, N queries (hypotheses) per utterance,
E size of an annotation, H size of a query, A size of a key.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn


class Annotations(NamedTuple):
    """The output of an encoder, one vector per position.

    values: (B, T, E).
    mask: (B, T) bool, True where attention is allowed.
    """

    values: Tensor
    mask: Tensor


class Memory(NamedTuple):
    """Annotations with their keys: computed once per utterance, never per step.

    values: (B, T, E). mask: (B, T) bool. keys: (B, T, A), or another tensor (B, …) that the
        mechanism computes from the annotations and that only the mechanism reads.
    """

    values: Tensor
    mask: Tensor
    keys: Tensor


class Alignment(NamedTuple):
    """The attention of the past steps that the next step may use.

    weights: (B, N, T), those of the last step; each row sums to 1 (to 0 before the first step
        and if no position is allowed).
    cumulative: (B, N, T), the sum of the weights over all steps so far.
    """

    weights: Tensor
    cumulative: Tensor

    def advance(self, weights: Tensor) -> Alignment:
        """Return the alignment after one more step with these `weights` (B, N, T)."""
        return Alignment(weights, self.cumulative + weights)


class Attention(nn.Module):
    """Base of all mechanisms. It stores parameters only; all state is passed as arguments.

    context_is_weighted_mean: whether the context is weights · values, which the contract tests
        check; False for a mechanism with heads, whose weights are the mean over the heads.
    """

    context_is_weighted_mean: ClassVar[bool] = True

    def prepare(self, annotations: Annotations) -> Memory:
        """Compute the keys: annotations (B, T, E) → memory with keys (B, T, A)."""
        raise NotImplementedError  # defined by each mechanism

    def start(self, memory: Memory, hypotheses: int = 1) -> Alignment:
        """Return the alignment before the first step: zeros (B, hypotheses, T)."""
        batch, length = memory.mask.shape
        precise = torch.promote_types(memory.values.dtype, torch.float32)
        zeros = memory.values.new_zeros(batch, hypotheses, length, dtype=precise)
        return Alignment(zeros, zeros)

    def forward(
        self, query: Tensor, memory: Memory, previous: Alignment
    ) -> tuple[Tensor, Alignment]:
        """Attend: query (B, N, H) → context (B, N, E) and the alignment of this step."""
        raise NotImplementedError  # defined by each mechanism


# name in a config → "module:class"; a new mechanism needs one line here.
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "additive": "asr.attention.additive:AdditiveAttention",
        "concat": "asr.attention.dot:ConcatAttention",
        "coverage": "asr.attention.coverage:CoverageAttention",
        "dot": "asr.attention.dot:DotAttention",
        "fixed": "asr.attention.fixed:FixedContext",
        "general": "asr.attention.dot:GeneralAttention",
        "linear": "asr.attention.linear:LinearAttention",
        "local": "asr.attention.local:LocalAttention",
        "relu": "asr.attention.relu:ReluAttention",
        "scaled_dot": "asr.attention.dot:ScaledDotAttention",
    }
)


def attention_class(kind: str) -> type[Attention]:
    """Return the class of a mechanism by its name in `KINDS`.

    Raises:
        ValueError: no mechanism of that name.
    """
    if kind not in KINDS:
        raise ValueError(f"attention kind {kind!r} is not one of: {', '.join(sorted(KINDS))}")
    module, _, name = KINDS[kind].partition(":")
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, type) and issubclass(found, Attention)
    return found
