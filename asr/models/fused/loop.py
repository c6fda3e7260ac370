"""All teacher-forced steps of the decoder as one autograd function.

The same function as calling `Decoder.step` once a target token, at about a third of the time and
a tenth of the memory: nothing but states, contexts, weights and gates is kept of a step, the
tanh of the energies is made again in the backward pass, and the gradients of all matrices are
one product each after the loop instead of one per step.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from asr.attention.additive import AdditiveAttention
from asr.attention.contract import Alignment, Attention, Memory
from asr.attention.masks import Window
from asr.attention.normalizers import SOFTMAX, at_least_float32, masked_softmax
from asr.models.fused.parts import Location, cell_gradient, move_cell


class Unrolled(NamedTuple):
    """hidden: (B, U, H). context: (B, U, E). weights: (B, U, T)."""

    hidden: Tensor
    context: Tensor
    weights: Tensor


def can_unroll(attention: Attention) -> TypeGuard[AdditiveAttention]:
    """Whether `unroll` knows the mechanism: additive attention itself, with a softmax."""
    # A subclass may do otherwise; a softmax with a temperature is an object, not the name.
    return type(attention) is AdditiveAttention and attention.normalizer == SOFTMAX


def unroll(
    attention: AdditiveAttention,
    memory: Memory,
    hidden: Tensor,
    token_gates: Tensor,
    first: nn.Linear | None,
    context_gates: nn.Linear,
    state_gates: nn.Linear,
) -> Unrolled:
    """Run all steps: see `Decoder`.

    hidden: (B, H), s_0. token_gates: (B, U, 3H), what the tokens add to the gates.
    context_gates, state_gates: of the cell that reads the context; without a `first` it reads the
        tokens too and attention is asked with its old state ("before").
    first: the state's part in the gates of a cell in front, which reads the tokens, and whose
        new state asks attention and is the other cell's old state ("between").
    """
    device = hidden.device.type
    # Under autocast only the products are in 16 bits; what is summed up over steps is not.
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    with torch.autocast(device, enabled=False):
        kernel = None
        if attention.location is not None:
            # Two convolutions in a row, the second of width 1, are one: (A, C) · (C, 2, K).
            inner, outer = attention.location.parameters()
            kernel = torch.einsum("ac,cpk->apk", outer[:, :, 0], inner)  # (A, 2, K)
        outputs: tuple[Tensor, ...] = _Loop.apply(  # type: ignore[no-untyped-call]  # torch's
            at_least_float32(token_gates).transpose(0, 1),
            at_least_float32(hidden),
            at_least_float32(memory.values),
            at_least_float32(memory.keys),
            memory.mask,
            attention.query.weight,
            attention.energy,
            kernel,
            None if first is None else first.weight,
            None if first is None else first.bias,
            context_gates.weight,
            state_gates.weight,
            state_gates.bias,
            attention.window,
            narrow,
        )
    return Unrolled(*(each.transpose(0, 1) for each in outputs))


class _Loop(torch.autograd.Function):
    """Forward and backward through all steps; time is the first dimension of what they keep."""

    @staticmethod
    def forward(
        ctx: Any,
        token_gates: Tensor,  # (U, B, 3H)
        start: Tensor,  # (B, H)
        values: Tensor,  # (B, T, E)
        keys: Tensor,  # (B, T, A)
        mask: Tensor,  # (B, T)
        query_matrix: Tensor,  # (A, H)
        energy: Tensor,  # (A,)
        kernel: Tensor | None,  # (A, 2, K)
        first_matrix: Tensor | None,  # (3H, H)
        first_bias: Tensor | None,  # (3H,)
        context_matrix: Tensor,  # (3H, E)
        state_matrix: Tensor,  # (3H, H)
        state_bias: Tensor,  # (3H,)
        window: Window | None,
        narrow: torch.dtype | None,  # of the products, if not that of the inputs
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, batch, _ = token_gates.shape
        size, length = start.size(1), mask.size(1)
        dtype = narrow or start.dtype
        location = None if kernel is None else Location(kernel, dtype)
        hidden = start.new_empty(steps + 1, batch, size)
        hidden[0] = start
        contexts = values.new_empty(steps, batch, values.size(2))
        weights = values.new_zeros(steps + 1, batch, length)  # the first: before any step
        cumulative = values.new_zeros(steps + 1, batch, length)
        candidate_states = start.new_empty(steps, batch, size)
        asking = hidden[:-1]  # the states that attention is asked with
        first_gates = first_candidate_states = start.new_empty(0)
        # Gates: reset, update and candidate, after their non-linearities.
        if first_matrix is None:
            gates = token_gates.clone()
        else:
            assert first_bias is not None
            gates = torch.zeros_like(token_gates)
            first_gates = token_gates.clone()
            first_candidate_states = torch.empty_like(candidate_states)
            asking = torch.empty_like(candidate_states)
            first_columns, first_offset = first_matrix.T.to(dtype), first_bias
        context_columns = context_matrix.T.to(dtype)
        state_columns = torch.cat([state_matrix, query_matrix]).T.to(dtype)
        bias = torch.cat([state_bias, state_bias.new_zeros(len(query_matrix))])
        # tanh(x) = 2σ(2x) − 1, and σ takes a tenth of tanh's time on a CPU; the constant
        # Σv that this leaves in the energies falls out of the softmax.
        doubled_keys, doubled_energy = 2 * keys, 2 * energy
        inner = torch.empty_like(keys)  # the same memory for all steps
        for step in range(steps):
            state = asking[step]
            if first_matrix is not None:
                last = hidden[step]
                old = first_offset + last.to(dtype) @ first_columns
                move_cell(first_gates[step], old, last, first_candidate_states[step], state)
            from_state = bias + state.to(dtype) @ state_columns  # (B, 3H + A)
            old, query = from_state[:, : 3 * size], from_state[:, 3 * size :]
            torch.add(doubled_keys, query[:, None], alpha=2, out=inner)  # (B, T, A)
            if location is not None:
                band = location.band(weights[step], cumulative[step])
                inner.add_(band @ location.matrix.T, alpha=2)
            energies = (inner.sigmoid_() @ doubled_energy)[:, None]  # (B, 1, T)
            allowed = mask[:, None]
            if window is not None:
                past = Alignment(weights[step][:, None], cumulative[step][:, None])
                energies, allowed = window.apply(energies, allowed, past)
            looked = masked_softmax(energies, allowed)  # (B, 1, T)
            torch.bmm(looked, values, out=contexts[step][:, None])
            weights[step + 1] = looked[:, 0]
            torch.add(cumulative[step], weights[step + 1], out=cumulative[step + 1])
            new = gates[step].add_(contexts[step].to(dtype) @ context_columns)
            move_cell(new, old, state, candidate_states[step], hidden[step + 1])
        ctx.dtype = dtype
        ctx.save_for_backward(
            values, keys, query_matrix, energy, kernel, first_matrix, context_matrix, state_matrix,
            hidden, asking, contexts, weights, cumulative, gates, candidate_states,
            first_gates, first_candidate_states,
        )  # fmt: skip
        return hidden[1:], contexts, weights[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden_out, d_context_out, d_weights_out = gradients
        (
            values, keys, query_matrix, energy, kernel, first_matrix, context_matrix, state_matrix,
            hidden, asking, contexts, weights, cumulative, gates, candidate_states,
            first_gates, first_candidate_states,
        ) = ctx.saved_tensors  # fmt: skip
        steps, batch, size = candidate_states.shape
        dtype = ctx.dtype
        # tanh′(x) = 4 σ(2x) (1 − σ(2x)): v and the 4 are left out of what the loop sums up over
        # steps and put in where its sums are used.
        slope = 4 * energy
        location = None if kernel is None else Location(kernel, dtype, slope)
        queries = 2 * (asking.to(dtype) @ query_matrix.T.to(dtype)).to(keys.dtype)  # (U, B, A)
        doubled_keys, inner = 2 * keys, torch.empty_like(keys)
        d_new = torch.empty_like(gates)
        d_from_state = gates.new_empty(steps, batch, 3 * size + len(query_matrix))
        d_contexts = d_context_out.clone()
        d_keys, d_energy = torch.zeros_like(keys), torch.zeros_like(energy)
        d_matrix = None if kernel is None else torch.zeros_like(kernel).flatten(1)
        d_past, d_cumulative = torch.zeros_like(weights[0]), torch.zeros_like(weights[0])
        # (3H + A, H)
        state_rows = torch.cat([state_matrix, slope[:, None] * query_matrix]).to(dtype)
        context_rows = context_matrix.to(dtype)
        value_columns = values.transpose(1, 2)
        d_state = torch.zeros_like(hidden[0])
        d_tokens, d_first_old = d_new, None
        if first_matrix is not None:
            d_tokens, d_first_old = torch.empty_like(gates), torch.empty_like(gates)
            first_rows = first_matrix.to(dtype)
        for step in reversed(range(steps)):
            d_state = d_state + d_hidden_out[step]
            d_old = d_from_state[step, :, : 3 * size]
            d_state = cell_gradient(
                d_state, asking[step], gates[step], candidate_states[step], d_new[step], d_old
            )
            d_context = d_contexts[step].add_(d_new[step].to(dtype) @ context_rows)
            d_looked = torch.bmm(d_context[:, None], value_columns)[:, 0]  # (B, T)
            d_looked += d_weights_out[step]
            d_looked += d_past
            d_looked += d_cumulative
            looked = weights[step + 1]
            d_looked *= looked
            d_energies = d_looked.addcmul_(looked, d_looked.sum(1, keepdim=True), value=-1)
            torch.add(doubled_keys, queries[step][:, None], out=inner)  # (B, T, A)
            if location is not None:
                band = location.band(weights[step], cumulative[step])
                inner.add_(band @ location.matrix.T, alpha=2)
            inner.sigmoid_()
            d_energy += d_energies.flatten() @ inner.flatten(0, 1)
            d_inner = inner.addcmul_(inner, inner, value=-1).mul_(d_energies[:, :, None])
            d_keys += d_inner
            torch.sum(d_inner, 1, out=d_from_state[step, :, 3 * size :])
            if location is not None and d_matrix is not None:
                d_term = d_inner.to(dtype)
                d_matrix += d_term.flatten(0, 1).T @ band.flatten(0, 1)
                d_past, d_new_cumulative = location.gradient_of_past(d_term)
                d_cumulative = d_cumulative + d_new_cumulative
            d_state = d_state + d_from_state[step].to(dtype) @ state_rows
            if d_first_old is not None:
                d_state = cell_gradient(
                    d_state, hidden[step], first_gates[step], first_candidate_states[step],
                    d_tokens[step], d_first_old[step],
                )  # fmt: skip
                d_state = d_state + d_first_old[step].to(dtype) @ first_rows
        d_state_rows = _matrix_gradient(d_from_state, asking, dtype)  # (3H + A, H)
        d_query_matrix = slope[:, None] * d_state_rows[3 * size :]
        d_state_bias = d_from_state[:, :, : 3 * size].sum((0, 1))
        d_first_matrix = d_first_bias = None
        if d_first_old is not None:
            d_first_matrix = _matrix_gradient(d_first_old, hidden[:-1], dtype)
            d_first_bias = d_first_old.sum((0, 1))
        d_context_matrix = _matrix_gradient(d_new, contexts, dtype)
        d_values = torch.bmm(weights[1:].permute(1, 2, 0), d_contexts.transpose(0, 1))
        d_kernel = None if d_matrix is None else (slope[:, None] * d_matrix).view_as(kernel)
        d_keys *= slope
        d_energy *= 2  # of tanh = 2σ − 1; the gradients of a softmax sum up to 0
        return (
            d_tokens, d_state, d_values, d_keys, None, d_query_matrix, d_energy, d_kernel,
            d_first_matrix, d_first_bias, d_context_matrix, d_state_rows[: 3 * size], d_state_bias,
            None, None,
        )  # fmt: skip


def _matrix_gradient(d_outputs: Tensor, inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Gradient (O, I) of the matrix of all steps: d_outputs (U, B, O), inputs (U, B, I)."""
    product = d_outputs.flatten(0, 1).to(dtype).T @ inputs.flatten(0, 1).to(dtype)
    return product.to(d_outputs.dtype)
