"""All teacher-forced steps of the decoder as one autograd function.

Equal to calling `Decoder.step` for each target token, in less time and memory: only states,
contexts, weights and gates of a step are stored, the energies are computed again in the backward
pass, the gradient of each matrix is one product after the loop instead of one per step, and a hard
window costs what its width does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from asr.attention.additive import AdditiveAttention
from asr.attention.contract import Attention, Memory
from asr.attention.normalizers import SOFTMAX, at_least_float32
from asr.models.cells import CELLS, CellKind
from asr.models.fused.cells import CELL_STEPS
from asr.models.fused.graphs import GRAPHS
from asr.models.fused.steps import StepsBackward, forward_steps
from asr.models.fused.tensors import Inputs, Options, Trace, Weights


class Unrolled(NamedTuple):
    """hidden: (B, U, H). context: (B, U, E). weights: (B, U, T)."""

    hidden: Tensor
    context: Tensor
    weights: Tensor


class Gates(NamedTuple):
    """The matrices of the recurrence, one or two cells of a kind.

    context, state: from context and old state to the gates of the cell with the context as input.
    first: from the old state to the gates of the cell before attention, whose input is the token
        and whose state is the query and the old state of the other cell ("between"). None: one
        cell has token and context as input, and its old state is the query ("before").
    """

    context: nn.Linear
    state: nn.Linear
    first: nn.Linear | None = None
    kind: CellKind = CELLS["gru"]


def can_unroll(attention: Attention) -> TypeGuard[AdditiveAttention]:
    """Whether `unroll` supports a mechanism: exactly additive attention with a softmax."""
    # Excludes subclasses; a softmax with a temperature is not equal to SOFTMAX.
    return type(attention) is AdditiveAttention and attention.normalizer == SOFTMAX


def unroll(
    attention: AdditiveAttention, memory: Memory, start: Tensor, token_gates: Tensor, gates: Gates
) -> Unrolled:
    """Run all steps from a first state, with the tokens' part of the gates (B, U, G·H).

    start: (B, P·H), the parts of s_0 side by side: h, and c of an LSTM.
    """
    device = start.device.type
    # Under autocast only the products are in 16 bits, not the sums over steps. A GPU would take
    # longer to start the kernels that convert than it saves on products this small.
    is_narrow = device == "cpu" and torch.is_autocast_enabled(device)
    narrow = torch.get_autocast_dtype(device) if is_narrow else None
    with torch.autocast(device, enabled=False):
        inputs = Inputs(
            token_gates=at_least_float32(token_gates).transpose(0, 1),
            start=at_least_float32(start),
            values=at_least_float32(memory.values),
            keys=at_least_float32(memory.keys),
            mask=memory.mask,
        )
        cell = CELL_STEPS[gates.kind.advance]
        options = Options(cell, attention.window, narrow or inputs.start.dtype)
        states, contexts, weights = _Loop.apply(  # type: ignore[no-untyped-call]  # torch's
            options, *inputs, *_weights(attention, gates)
        )
    hidden = states[:, :, : gates.state.in_features]
    return Unrolled(*(each.transpose(0, 1) for each in (hidden, contexts, weights)))


def _weights(attention: AdditiveAttention, gates: Gates) -> Weights:
    """Collect the weights of all modules."""
    spread: Tensor | None = None
    project: Tensor | None = None
    if attention.location is not None:
        spread, convolution = attention.location.parameters()
        project = convolution[:, :, 0]  # of width 1
    return Weights(
        query=attention.query.weight,
        energy=attention.energy,
        spread=spread,
        project=project,
        context=gates.context.weight,
        state=gates.state.weight,
        state_bias=gates.state.bias,
        first=None if gates.first is None else gates.first.weight,
        first_bias=None if gates.first is None else gates.first.bias,
    )


class _Loop(torch.autograd.Function):
    """The autograd function; autograd does not track tensors inside tuples."""

    @staticmethod
    def forward(ctx: Any, options: Options, *tensors: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return s_1 … s_U, c_1 … c_U and α_1 … α_U, each (U, B, ·)."""
        count = len(Inputs._fields)
        inputs, weights = Inputs(*tensors[:count]), Weights(*tensors[count:])
        ctx.options = options
        ctx.graph = GRAPHS.find(inputs, weights, options)
        if ctx.graph is not None:
            outputs: tuple[Tensor, Tensor, Tensor] = ctx.graph.forward(inputs, weights)
            ctx.run = ctx.graph.runs
            ctx.save_for_backward(*inputs, *weights)
            return outputs
        trace = forward_steps(inputs, weights, options)
        ctx.save_for_backward(*inputs[1:], *weights, *trace)
        return trace.states[1:], trace.contexts, trace.weights(inputs.values.size(1))[1:]

    @staticmethod
    def backward(ctx: Any, *d_outputs: Any) -> tuple[Tensor | None, ...]:
        """Return the gradients of the inputs of `forward` from those of its outputs."""
        if ctx.graph is not None:
            return None, *_by_graph(ctx, d_outputs)
        given, count = len(Inputs._fields) - 1, len(Weights._fields)
        saved = ctx.saved_tensors
        trace = Trace(*saved[given + count :])
        inputs = Inputs(trace.gates, *saved[:given])  # the token gates are part of these gates
        weights = Weights(*saved[given : given + count])
        steps = StepsBackward(inputs, weights, trace, ctx.options)
        d_start = steps.run(*d_outputs)
        return None, *steps.input_gradients(d_start), *steps.weight_gradients()


def _by_graph(ctx: Any, d_outputs: Any) -> Iterator[Tensor | None]:
    """Yield the gradients of inputs and weights, computed by the graph of the forward pass."""
    if ctx.graph.runs != ctx.run:  # another batch of these sizes came between
        count = len(Inputs._fields)
        ctx.graph.forward(Inputs(*ctx.saved_tensors[:count]), Weights(*ctx.saved_tensors[count:]))
    d_inputs, d_weights = ctx.graph.backward(d_outputs)
    yield from d_inputs
    yield from d_weights
