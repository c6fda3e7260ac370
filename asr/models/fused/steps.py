"""The forward and the backward pass through all steps of the fused loop.

In step i, with the tokens' part of the gates G_i, and h′_i the h of a state s′_i:

    s′_i = s_{i−1} ("before") or cell(G_i, F h_{i−1} + f; s_{i−1}) ("between")
    c_i  = attention(q_i), with q_i = W h′_i
    s_i  = cell(n_i, o_i; s′_i), with n_i = G_i + C c_i ("before") or C c_i ("between"),
                                  and o_i = R h′_i + r

∂x denotes the gradient of the loss with respect to x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.models.fused.attention import SCALE, AttentionForward, AttentionGradient
from asr.models.fused.tensors import Inputs, Options, Trace, Weights, new_trace


def forward_steps(inputs: Inputs, weights: Weights, options: Options) -> Trace:
    """Compute all steps; return the trace for the gradients."""
    trace = new_trace(inputs, weights, options)
    attention = AttentionForward(inputs, weights, trace, options)
    if attention.spans.gathers:
        starts = trace.contexts.new_empty(trace.contexts.shape[:2], dtype=torch.long)
        trace = attention.trace = trace._replace(window_starts=starts)
    context_columns = _columns(weights.context, options)
    # One product computes gates and query, scaled for `Reciprocals`, from h′_i.
    state_columns = _columns(torch.cat([weights.state, SCALE * weights.query]), options)
    bias = torch.cat([weights.state_bias, torch.zeros_like(weights.energy)])
    gates, size = weights.state.shape  # G·H, H
    first = None if weights.first is None else FirstCell(weights, trace, options)
    for step in range(len(trace.contexts)):
        if first is not None:
            first.step(step)
        state = trace.query_states[step]
        from_state = _affine(bias, state[:, :size], state_columns)  # (B, G·H + A)
        context = attention.step(step, from_state[:, gates:])
        new = trace.gates[step]
        if options.dtype == new.dtype:
            new.addmm_(context, context_columns)
        else:
            new += context.to(options.dtype) @ context_columns
        options.cell.step(
            new, from_state[:, :gates], state, trace.extras[step], trace.states[step + 1]
        )
    return trace


def _columns(matrix: Tensor, options: Options) -> Tensor:
    """Return a transposed copy (I, O) of a matrix (O, I): faster to multiply by than a view."""
    return matrix.T.to(options.dtype).contiguous()


def _affine(bias: Tensor, inputs: Tensor, columns: Tensor) -> Tensor:
    """Return bias (O,) + inputs (B, I) · columns (I, O), in the precision of bias."""
    if columns.dtype == bias.dtype:
        return torch.addmm(bias, inputs, columns)
    return bias + inputs.to(columns.dtype) @ columns


class FirstCell:
    """The cell before attention ("between"): s′_i = cell(G_i, F h_{i−1} + f; s_{i−1})."""

    def __init__(self, weights: Weights, trace: Trace, options: Options) -> None:
        assert weights.first is not None and weights.first_bias is not None
        assert trace.first_gates is not None and trace.first_extras is not None
        self.columns, self.bias = _columns(weights.first, options), weights.first_bias
        self.gates, self.extras = trace.first_gates, trace.first_extras
        self.trace, self.cell = trace, options.cell

    def step(self, step: int) -> None:
        """Write s′_i into the trace."""
        state = self.trace.states[step]
        old = _affine(self.bias, state[:, : len(self.columns)], self.columns)
        out = self.trace.query_states[step]
        self.cell.step(self.gates[step], old, state, self.extras[step], out)


class FirstCellGradient:
    """The gradient of `FirstCell`; d_new and d_old (U, B, G·H) are filled step by step."""

    def __init__(self, weights: Weights, trace: Trace, options: Options) -> None:
        assert weights.first is not None
        assert trace.first_gates is not None and trace.first_extras is not None
        self.rows = weights.first.to(options.dtype)
        self.gates, self.extras = trace.first_gates, trace.first_extras
        self.states, self.cell = trace.states, options.cell
        self.d_new, self.d_old = torch.empty_like(self.gates), torch.empty_like(self.gates)

    def step(self, step: int, d_state: Tensor) -> Tensor:
        """Return ∂s_{i−1} from ∂s′_i, both (B, P·H)."""
        d_old = self.d_old[step]
        d_state = self.cell.gradient(
            d_state, self.states[step], self.gates[step], self.extras[step],
            self.d_new[step], d_old,
        )  # fmt: skip
        d_state[:, : self.rows.size(1)] += d_old.to(self.rows.dtype) @ self.rows
        return d_state


class StepsBackward:
    """The gradient of `forward_steps`: first `run`, then the gradients of inputs and weights."""

    def __init__(self, inputs: Inputs, weights: Weights, trace: Trace, options: Options) -> None:
        self.weights, self.trace = weights, trace
        self.dtype, self.cell = options.dtype, options.cell
        self.gates, self.size = weights.state.shape  # G·H, H
        self.attention = AttentionGradient(inputs, weights, trace, options)
        self.first: FirstCellGradient | None = None
        if weights.first is not None:
            self.first = FirstCellGradient(weights, trace, options)
        # Filled by `run`, step by step; matrix gradients are computed after all steps.
        steps, batch, _ = trace.gates.shape
        self.d_new = torch.empty_like(trace.gates)  # ∂n
        size = self.gates + len(weights.query)
        self.d_from_state = trace.gates.new_empty(steps, batch, size)  # ∂o and ∂q
        self.d_contexts = torch.empty(0)

    def run(self, d_states: Tensor, d_contexts: Tensor, d_alphas: Tensor) -> Tensor:
        """Go back from the last step to the first; return ∂s_0 (B, P·H).

        d_states: (U, B, P·H), d_contexts: (U, B, E), d_alphas: (U, B, T): gradients of s_i, c_i and
        α_i from outside the loop. With ∂s_i from outside and from step i + 1:

            ∂n_i, ∂o_i, ∂s′_i = the cell's gradient of ∂s_i
            ∂c_i     += Cᵀ ∂n_i
            ∂q_i      = `AttentionGradient.step` of ∂c_i and ∂α_i
            ∂h′_i    += Rᵀ ∂o_i + Wᵀ ∂q_i
            ∂s_{i−1}  = ∂s′_i, or `FirstCellGradient.step` of it
        """
        trace, attention, dtype, gates = self.trace, self.attention, self.dtype, self.gates
        context_rows = self.weights.context.to(dtype)
        # `AttentionGradient` omits a factor from ∂q; it is included in Wᵀ here.
        sloped = attention.slope[:, None] * self.weights.query
        state_rows = torch.cat([self.weights.state, sloped]).to(dtype)
        self.d_contexts = d_contexts.clone()
        d_state = torch.zeros_like(trace.states[0])
        for step in reversed(range(len(d_states))):
            d_new, d_from_state = self.d_new[step], self.d_from_state[step]
            d_state = self.cell.gradient(
                d_state + d_states[step], trace.query_states[step], trace.gates[step],
                trace.extras[step], d_new, d_from_state[:, :gates],
            )  # fmt: skip
            d_context = self.d_contexts[step].add_(d_new.to(dtype) @ context_rows)
            attention.step(step, d_context, d_alphas[step], d_from_state[:, gates:])
            d_state[:, : self.size] += d_from_state.to(dtype) @ state_rows
            if self.first is not None:
                d_state = self.first.step(step, d_state)
        return d_state

    def input_gradients(self, d_start: Tensor) -> Inputs:
        """Return the gradients of the inputs; ∂G_i is ∂n_i of the cell with the token as input."""
        return Inputs(
            token_gates=self.d_new if self.first is None else self.first.d_new,
            start=d_start,
            values=self.attention.value_gradient(self.d_contexts),
            keys=self.attention.key_gradient(),
            mask=None,
        )

    def weight_gradients(self) -> Weights:
        """Return the gradients of all weights: for y_i = M x_i, ∂M = Σ_i ∂y_i x_iᵀ."""
        trace, gates, first = self.trace, self.gates, self.first
        hidden = trace.query_states[:, :, : self.size]
        d_state_rows = self._matrix(self.d_from_state, hidden)  # (G·H + A, H)
        d_spread, d_project = self.attention.location_gradients()
        d_first = d_first_bias = None
        if first is not None:
            d_first = self._matrix(first.d_old, trace.states[:-1, :, : self.size])
            d_first_bias = first.d_old.sum((0, 1))
        return Weights(
            query=self.attention.slope[:, None] * d_state_rows[gates:],
            energy=self.attention.energy_gradient(),
            spread=d_spread,
            project=d_project,
            context=self._matrix(self.d_new, trace.contexts),
            state=d_state_rows[:gates],
            state_bias=self.d_from_state[:, :, :gates].sum((0, 1)),
            first=d_first,
            first_bias=d_first_bias,
        )

    def _matrix(self, d_outputs: Tensor, inputs: Tensor) -> Tensor:
        """Return the gradient (O, I) of a matrix: d_outputs (U, B, O), inputs (U, B, I)."""
        rows, columns = d_outputs.flatten(0, 1).to(self.dtype), inputs.flatten(0, 1).to(self.dtype)
        return (rows.T @ columns).to(d_outputs.dtype)
