"""The tensors of the fused loop: inputs, weights, options and trace.

Letters: B utterances, U target steps, T annotations, E/H/A sizes of annotation, state and
attention. In tensors over steps, the step is the first dimension.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from asr.attention.masks import Window


class Inputs(NamedTuple):
    """The inputs of the loop, or their gradients.

    token_gates: (U, B, 3H), the tokens' part of the gates of the cell with the token as input.
    start: (B, H), s_0. values: (B, T, E). keys: (B, T, A). mask: (B, T), without gradient.
    """

    token_gates: Tensor
    start: Tensor
    values: Tensor
    keys: Tensor
    mask: Tensor | None


class Weights(NamedTuple):
    """The weights of the recurrence, or their gradients.

    query: (A, H), W of the energies. energy: (A,), v of the energies.
    location: (A, 2, K), from past weights (the channels of `Alignment`) to energies; or None.
    context: (3H, E), from the context to the gates of the cell with the context as input.
    state, state_bias: (3H, H) and (3H,), from the old state of that cell to its gates.
    first, first_bias: the same of the cell before attention ("between"); else None.
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
    """Results of the forward pass that the backward pass needs.

    hidden: (U+1, B, H), s_0 to s_U.
    query_states: (U, B, H), s′_i, from which query and gates are computed: s_{i−1} ("before"), or
        the state of the first cell ("between").
    contexts: (U, B, E). weights, cumulative: (U+1, B, T), including those before the first step.
    gates: (U, B, 3H), reset, update and candidate after their non-linearities.
    candidate_states: (U, B, H), the old state's part of the candidate, before the reset gate.
    first_gates, first_candidate_states: the same of the first cell; else None.
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
    """Allocate the trace and set s_0, the weights before the first step, and the token gates."""
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
