"""The tensors of the fused loop, by name: what enters it, its weights, and what it keeps.

Letters: B utterances, U target steps, T annotations, E/H/A sizes of annotation, state and
attention. Of what belongs to steps, the step is the first dimension.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from asr.attention.masks import Window


class Inputs(NamedTuple):
    """What the steps read, or its gradients.

    token_gates: (U, B, 3H), what the tokens add to the gates of the cell that reads them.
    start: (B, H), s_0. values: (B, T, E). keys: (B, T, A). mask: (B, T), which has no gradient.
    """

    token_gates: Tensor
    start: Tensor
    values: Tensor
    keys: Tensor
    mask: Tensor | None


class Weights(NamedTuple):
    """The weights of the recurrence, or their gradients.

    query: (A, H), W of the energies. energy: (A,), v of the energies.
    location: (A, 2, K), from past weights to energies, over the channels `Alignment` has; or None.
    context: (3H, E), from the context to the gates of the cell that reads it.
    state, state_bias: (3H, H) and (3H,), from that cell's old state to its gates.
    first, first_bias: the same of the cell before attention ("between"); None without one.
    """

    query: Tensor
    energy: Tensor
    location: Tensor | None
    context: Tensor
    state: Tensor
    state_bias: Tensor
    first: Tensor | None
    first_bias: Tensor | None


class Options(NamedTuple):
    """window: limits attention at each step, or None. dtype: of the matrix products."""

    window: Window | None
    dtype: torch.dtype


class Trace(NamedTuple):
    """What the forward pass keeps of its steps for the backward pass.

    hidden: (U+1, B, H), s_0 to s_U.
    query_states: (U, B, H), s′_i, which query and second half of the step start from: s_{i−1}
        itself ("before"), or the state of the first cell ("between").
    contexts: (U, B, E). weights, cumulative: (U+1, B, T), those before the first step included.
    gates: (U, B, 3H), reset, update and candidate after their non-linearities.
    candidate_states: (U, B, H), the old state's part of the candidate, before the reset gate.
    first_gates, first_candidate_states: the same of the first cell; None without one.
    """

    hidden: Tensor
    query_states: Tensor
    contexts: Tensor
    weights: Tensor
    cumulative: Tensor
    gates: Tensor
    candidate_states: Tensor
    first_gates: Tensor | None
    first_candidate_states: Tensor | None


def new_trace(inputs: Inputs, has_first_cell: bool) -> Trace:
    """Allocate the trace, with s_0, weights before the first step, and the tokens' gates in it."""
    tokens, start, values = inputs.token_gates, inputs.start, inputs.values
    steps, batch, _ = tokens.shape
    hidden = start.new_empty(steps + 1, *start.shape)
    hidden[0] = start
    weights = values.new_zeros(steps + 1, batch, values.size(1))
    return Trace(
        hidden=hidden,
        query_states=torch.empty_like(hidden[1:]) if has_first_cell else hidden[:-1],
        contexts=values.new_empty(steps, batch, values.size(2)),
        weights=weights,
        cumulative=torch.zeros_like(weights),
        gates=torch.zeros_like(tokens) if has_first_cell else tokens.clone(),
        candidate_states=torch.empty_like(hidden[1:]),
        first_gates=tokens.clone() if has_first_cell else None,
        first_candidate_states=torch.empty_like(hidden[1:]) if has_first_cell else None,
    )
