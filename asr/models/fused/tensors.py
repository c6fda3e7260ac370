"""The tensors of the fused loop: inputs, weights, options and trace.

Letters: B utterances, U target steps, T annotations, E/H/A sizes of annotation, state and
attention, G gates of a cell (3 of a GRU, 4 of an LSTM), P parts of its state (1; 2: h and c), C and
K channels and width of the location features. In tensors over steps, the step is the first
dimension.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, dtype

from asr.attention.masks import Window
from asr.models.fused.cells import CellSteps


class Inputs(NamedTuple):
    """The inputs of the loop, or their gradients.

    token_gates: (U, B, G·H), the tokens' part of the gates of the cell with the token as input.
    start: (B, P·H), s_0. values: (B, T, E). keys: (B, T, A). mask: (B, T), without gradient.
    """

    token_gates: Tensor
    start: Tensor
    values: Tensor
    keys: Tensor
    mask: Tensor | None


class Weights(NamedTuple):
    """The weights of the recurrence, or their gradients.

    query: (A, H), W of the energies. energy: (A,), v of the energies.
    spread, project: (C, 2, K) and (A, C), from past weights (the channels of `Alignment`) to
        location features, and from these to energies; or None.
    context: (G·H, E), from the context to the gates of the cell with the context as input.
    state, state_bias: (G·H, H) and (G·H,), from the old state of that cell to its gates.
    first, first_bias: the same of the cell before attention ("between"); else None.
    """

    query: Tensor
    energy: Tensor
    spread: Tensor | None
    project: Tensor | None
    context: Tensor
    state: Tensor
    state_bias: Tensor
    first: Tensor | None
    first_bias: Tensor | None


class Options(NamedTuple):
    """cell: of the recurrence. window: of the attention, or None. dtype: of the products."""

    cell: CellSteps
    window: Window | None
    dtype: dtype


class Trace(NamedTuple):
    """Results of the forward pass that the backward pass needs.

    states: (U+1, B, P·H), s_0 to s_U.
    query_states: (U, B, P·H), s′_i, from which query and gates are computed: s_{i−1} ("before"), or
        the state of the first cell ("between").
    contexts: (U, B, E).
    past: (U+1, B, 2, T + K − 1), the weights before each step and their sums, with zeros for the
        K // 2 neighbours at both ends; without location features (U+1, B, 1, T), the weights.
    window_starts: (U, B), the first annotation of each step's window, −1 in steps over all; None
        without a window.
    gates: (U, B, G·H), after their non-linearities.
    extras: (U, B, H), what else the gradient of the cell needs: see `asr.models.fused.cells`.
    first_gates, first_extras: the same of the first cell; else None.
    """

    states: Tensor
    query_states: Tensor
    contexts: Tensor
    past: Tensor
    window_starts: Tensor | None
    gates: Tensor
    extras: Tensor
    first_gates: Tensor | None
    first_extras: Tensor | None

    def weights(self, length: int) -> Tensor:
        """Return the weights (U+1, B, T), a view; length: T."""
        return self.past[:, :, 0].narrow(2, (self.past.size(3) - length) // 2, length)


def new_trace(inputs: Inputs, weights: Weights, options: Options) -> Trace:
    """Allocate the trace and set s_0, the weights before the first step, and the token gates."""
    tokens, start, values = inputs.token_gates, inputs.start, inputs.values
    steps, batch, _ = tokens.shape
    states = start.new_empty(steps + 1, *start.shape)
    states[0] = start
    extras = start.new_empty(steps, batch, weights.state.size(1))
    channels, around = (1, 0) if weights.spread is None else (2, weights.spread.size(2) - 1)
    is_between = weights.first is not None
    return Trace(
        states=states,
        query_states=start.new_empty(steps, *start.shape) if is_between else states[:-1],
        contexts=values.new_empty(steps, batch, values.size(2)),
        past=values.new_zeros(steps + 1, batch, channels, values.size(1) + around),
        window_starts=None,
        gates=values.new_zeros(tokens.shape) if is_between else tokens.clone(),
        extras=extras,
        first_gates=tokens.clone() if is_between else None,
        first_extras=extras.new_empty(extras.shape) if is_between else None,
    )
