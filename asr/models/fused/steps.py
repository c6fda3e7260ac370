"""The forward and the backward pass through all steps of the fused loop.

In step i, with the tokens' part of the gates G_i:

    s′_i = s_{i−1} ("before") or GRU(G_i, F s_{i−1} + f; s_{i−1}) ("between")
    c_i  = attention(q_i), with q_i = W s′_i
    s_i  = GRU(n_i, o_i; s′_i), with n_i = G_i + C c_i ("before") or C c_i ("between"),
                                 and o_i = R s′_i + r

∂x denotes the gradient of the loss with respect to x.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.models.fused.attention import AttentionForward, AttentionGradient
from asr.models.fused.gru import FirstCell, FirstCellGradient, gru_gradient, gru_step
from asr.models.fused.tensors import Inputs, Options, Trace, Weights, new_trace


def forward_steps(inputs: Inputs, weights: Weights, options: Options) -> Trace:
    """Compute all steps; return the trace for the gradients."""
    trace = new_trace(inputs, has_first_cell=weights.first is not None)
    attention = AttentionForward(inputs, weights, trace, options)
    context_columns = weights.context.T.to(options.dtype)
    # One product computes gates and query from s′_i. The query is doubled for `AttentionForward`.
    state_columns = torch.cat([weights.state, 2 * weights.query]).T.to(options.dtype)
    bias = torch.cat([weights.state_bias, torch.zeros_like(weights.energy)])
    gates = len(weights.state_bias)  # 3H
    first = None if weights.first is None else FirstCell(weights, trace, options.dtype)
    for step in range(len(trace.contexts)):
        if first is not None:
            first.step(step)
        state = trace.query_states[step]
        from_state = bias + state.to(options.dtype) @ state_columns  # (B, 3H + A)
        context = attention.step(step, from_state[:, gates:])
        new = trace.gates[step].add_(context.to(options.dtype) @ context_columns)
        gru_step(
            new, from_state[:, :gates], state, trace.candidate_states[step], trace.hidden[step + 1]
        )
    return trace


class StepsBackward:
    """The gradient of `forward_steps`: first `run`, then the gradients of inputs and weights."""

    def __init__(
        self, values: Tensor, keys: Tensor, weights: Weights, trace: Trace, options: Options
    ) -> None:
        self.weights, self.trace, self.dtype = weights, trace, options.dtype
        self.gates = weights.state.size(0)  # 3H
        self.attention = AttentionGradient(values, keys, weights, trace, options)
        self.first: FirstCellGradient | None = None
        if weights.first is not None:
            self.first = FirstCellGradient(weights, trace, options.dtype)
        # Filled by `run`, step by step; matrix gradients are computed after all steps.
        steps, batch, _ = trace.gates.shape
        self.d_new = torch.empty_like(trace.gates)  # ∂n
        size = self.gates + len(weights.query)
        self.d_from_state = trace.gates.new_empty(steps, batch, size)  # ∂o and ∂q
        self.d_contexts = torch.empty(0)

    def run(self, d_hidden: Tensor, d_contexts: Tensor, d_alphas: Tensor) -> Tensor:
        """Go back from the last step to the first; return ∂s_0 (B, H).

        d_hidden: (U, B, H), d_contexts: (U, B, E), d_alphas: (U, B, T): gradients of s_i, c_i and
        α_i from outside the loop. With ∂s_i from outside and from step i + 1:

            ∂n_i, ∂o_i, ∂s′_i = `gru_gradient` of ∂s_i
            ∂c_i     += Cᵀ ∂n_i
            ∂q_i      = `AttentionGradient.step` of ∂c_i and ∂α_i
            ∂s′_i    += Rᵀ ∂o_i + Wᵀ ∂q_i
            ∂s_{i−1}  = ∂s′_i, or `FirstCellGradient.step` of it
        """
        trace, attention, dtype, gates = self.trace, self.attention, self.dtype, self.gates
        context_rows = self.weights.context.to(dtype)
        # `AttentionGradient` omits a factor from ∂q; it is included in Wᵀ here.
        sloped = attention.slope[:, None] * self.weights.query
        state_rows = torch.cat([self.weights.state, sloped]).to(dtype)
        self.d_contexts = d_contexts.clone()
        d_state = torch.zeros_like(trace.hidden[0])
        for step in reversed(range(len(d_hidden))):
            d_new, d_from_state = self.d_new[step], self.d_from_state[step]
            d_state = gru_gradient(
                d_state + d_hidden[step], trace.query_states[step], trace.gates[step],
                trace.candidate_states[step], d_new, d_from_state[:, :gates],
            )  # fmt: skip
            d_context = self.d_contexts[step].add_(d_new.to(dtype) @ context_rows)
            attention.step(step, d_context, d_alphas[step], d_from_state[:, gates:])
            d_state = d_state + d_from_state.to(dtype) @ state_rows
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
        d_state_rows = self._matrix(self.d_from_state, trace.query_states)  # (3H + A, H)
        return Weights(
            query=self.attention.slope[:, None] * d_state_rows[gates:],
            energy=self.attention.energy_gradient(),
            location=self.attention.location_gradient(),
            context=self._matrix(self.d_new, trace.contexts),
            state=d_state_rows[:gates],
            state_bias=self.d_from_state[:, :, :gates].sum((0, 1)),
            first=None if first is None else self._matrix(first.d_old, trace.hidden[:-1]),
            first_bias=None if first is None else first.d_old.sum((0, 1)),
        )

    def _matrix(self, d_outputs: Tensor, inputs: Tensor) -> Tensor:
        """Return the gradient (O, I) of a matrix: d_outputs (U, B, O), inputs (U, B, I)."""
        rows, columns = d_outputs.flatten(0, 1).to(self.dtype), inputs.flatten(0, 1).to(self.dtype)
        return (rows.T @ columns).to(d_outputs.dtype)
