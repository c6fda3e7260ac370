"""One step of a gated recurrent unit and its gradient, written into given buffers.

With n and o the contributions of the input and the old state s to the gates r, u and c:

    r = σ(n_r + o_r)    u = σ(n_u + o_u)    c = tanh(n_c + r ⊙ o_c)    s′ = (1 − u) ⊙ c + u ⊙ s

Equal to `asr.models.cells.gru`. `FirstCell` is a cell before attention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.models.fused.tensors import Trace, Weights


def gru_step(
    new: Tensor,  # (B, 3H), n; becomes reset, update and candidate
    old: Tensor,  # (B, 3H), o
    state: Tensor,  # (B, H), s
    candidate_state: Tensor,  # (B, H), written: o_c
    out: Tensor,  # (B, H), written: s′
) -> None:
    """Compute the new state and the inputs of `gru_gradient`."""
    size = state.size(1)
    new[:, : 2 * size].add_(old[:, : 2 * size]).sigmoid_()
    reset, update, candidate = new.chunk(3, dim=1)
    candidate_state.copy_(old[:, 2 * size :])
    candidate.addcmul_(reset, candidate_state).tanh_()
    torch.lerp(candidate, state, update, out=out)


def gru_gradient(
    d_out: Tensor,  # (B, H), ∂s′
    state: Tensor,  # (B, H), s
    gates: Tensor,  # (B, 3H), of `gru_step`
    candidate_state: Tensor,  # (B, H), of `gru_step`
    d_new: Tensor,  # (B, 3H), written: ∂n
    d_old: Tensor,  # (B, 3H), written: ∂o
) -> Tensor:
    """Return the part of ∂s that does not flow through o: ∂s′ ⊙ u.

    ∂n_c = ∂s′ ⊙ (1 − u) ⊙ (1 − c²)           ∂o_c = ∂n_c ⊙ r
    ∂n_u = ∂o_u = ∂s′ ⊙ (s − c) ⊙ u ⊙ (1 − u)
    ∂n_r = ∂o_r = ∂n_c ⊙ o_c ⊙ r ⊙ (1 − r)
    """
    size = state.size(1)
    reset, update, candidate = gates.chunk(3, dim=1)
    d_candidate = d_out * (1 - update) * (1 - candidate.square())
    d_new[:, 2 * size :] = d_candidate
    d_new[:, size : 2 * size] = d_out * (state - candidate) * update * (1 - update)
    d_new[:, :size] = d_candidate * candidate_state * reset * (1 - reset)
    d_old[:, : 2 * size] = d_new[:, : 2 * size]
    d_old[:, 2 * size :] = d_candidate * reset
    return d_out * update


class FirstCell:
    """The cell before attention ("between"): s′_i = GRU(G_i, F s_{i−1} + f; s_{i−1})."""

    def __init__(self, weights: Weights, trace: Trace, dtype: torch.dtype) -> None:
        assert weights.first is not None and weights.first_bias is not None
        assert trace.first_gates is not None and trace.first_candidate_states is not None
        self.columns = weights.first.T.to(dtype)
        self.bias = weights.first_bias
        self.gates, self.candidate_states = trace.first_gates, trace.first_candidate_states
        self.trace = trace

    def step(self, step: int) -> None:
        """Write s′_i into the trace."""
        state = self.trace.hidden[step]
        old = self.bias + state.to(self.columns.dtype) @ self.columns
        out = self.trace.query_states[step]
        gru_step(self.gates[step], old, state, self.candidate_states[step], out)


class FirstCellGradient:
    """The gradient of `FirstCell`; d_new and d_old (U, B, 3H) are filled step by step."""

    def __init__(self, weights: Weights, trace: Trace, dtype: torch.dtype) -> None:
        assert weights.first is not None
        assert trace.first_gates is not None and trace.first_candidate_states is not None
        self.rows = weights.first.to(dtype)
        self.gates, self.candidate_states = trace.first_gates, trace.first_candidate_states
        self.hidden = trace.hidden
        self.d_new, self.d_old = torch.empty_like(self.gates), torch.empty_like(self.gates)

    def step(self, step: int, d_state: Tensor) -> Tensor:
        """Return ∂s_{i−1} from ∂s′_i, both (B, H)."""
        d_old = self.d_old[step]
        d_state = gru_gradient(
            d_state, self.hidden[step], self.gates[step], self.candidate_states[step],
            self.d_new[step], d_old,
        )  # fmt: skip
        return d_state + d_old.to(self.rows.dtype) @ self.rows
