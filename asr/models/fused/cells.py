"""One step of a recurrent cell and its gradient, written into given buffers.

With n and o the contributions of the input and the old state to the gates. The functions equal
those of `asr.models.cells`; a state has the parts of `asr.models.state` side by side, h first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from asr.models.cells import State, gru, lstm, tanh


class CellSteps(NamedTuple):
    """A cell of the fused loop.

    step(n, o, state, extra, out): writes the new state to `out` (B, P·H), the gates after their
        non-linearities over n (B, G·H), and `extra` (B, H).
    gradient(∂out, state, gates, extra, ∂n, ∂o): writes ∂n and ∂o (B, G·H); returns the part of
        ∂state (B, P·H) that does not flow through o.
    """

    step: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]
    gradient: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def gru_step(new: Tensor, old: Tensor, state: Tensor, extra: Tensor, out: Tensor) -> None:
    """Compute s′; gates r, u and c; extra: o_c.

    r = σ(n_r + o_r)    u = σ(n_u + o_u)    c = tanh(n_c + r ⊙ o_c)    s′ = (1 − u) ⊙ c + u ⊙ s
    """
    size = state.size(1)
    new[:, : 2 * size].add_(old[:, : 2 * size]).sigmoid_()
    reset, update, candidate = new.chunk(3, dim=1)
    extra.copy_(old[:, 2 * size :])
    candidate.addcmul_(reset, extra).tanh_()
    torch.lerp(candidate, state, update, out=out)


def gru_gradient(
    d_out: Tensor, state: Tensor, gates: Tensor, extra: Tensor, d_new: Tensor, d_old: Tensor
) -> Tensor:
    """Compute ∂n and ∂o; return ∂s′ ⊙ u.

    ∂n_c = ∂s′ ⊙ (1 − u) ⊙ (1 − c²)           ∂o_c = ∂n_c ⊙ r
    ∂n_u = ∂o_u = ∂s′ ⊙ (s − c) ⊙ u ⊙ (1 − u)
    ∂n_r = ∂o_r = ∂n_c ⊙ o_c ⊙ r ⊙ (1 − r)
    """
    size = state.size(1)
    reset, update, candidate = gates.chunk(3, dim=1)
    d_candidate = d_out * (1 - update) * (1 - candidate.square())
    d_new[:, 2 * size :] = d_candidate
    d_new[:, size : 2 * size] = d_out * (state - candidate) * update * (1 - update)
    d_new[:, :size] = d_candidate * extra * reset * (1 - reset)
    d_old[:, : 2 * size] = d_new[:, : 2 * size]
    d_old[:, 2 * size :] = d_candidate * reset
    return d_out * update


def lstm_step(new: Tensor, old: Tensor, state: Tensor, extra: Tensor, out: Tensor) -> None:
    """Compute h′ and c′; gates i, f, g and o; extra: tanh c′.

    i, f, o = σ(n + o)    g = tanh(n_g + o_g)    c′ = f ⊙ c + i ⊙ g    h′ = o ⊙ tanh c′
    """
    size = extra.size(1)
    new.add_(old)
    new[:, : 2 * size].sigmoid_()
    new[:, 2 * size : 3 * size].tanh_()
    new[:, 3 * size :].sigmoid_()
    enter, keep, candidate, show = new.chunk(4, dim=1)
    memory = out[:, size:]
    torch.mul(keep, state[:, size:], out=memory).addcmul_(enter, candidate)
    torch.tanh(memory, out=extra)
    torch.mul(show, extra, out=out[:, :size])


def lstm_gradient(
    d_out: Tensor, state: Tensor, gates: Tensor, extra: Tensor, d_new: Tensor, d_old: Tensor
) -> Tensor:
    """Compute ∂n = ∂o; return 0 for h, and ∂c = ∂c′_all ⊙ f.

    ∂c′_all = ∂c′ + ∂h′ ⊙ o ⊙ (1 − tanh² c′)
    ∂n_i = ∂c′_all ⊙ g ⊙ i ⊙ (1 − i)    ∂n_f = ∂c′_all ⊙ c ⊙ f ⊙ (1 − f)
    ∂n_g = ∂c′_all ⊙ i ⊙ (1 − g²)       ∂n_o = ∂h′ ⊙ tanh c′ ⊙ o ⊙ (1 − o)
    """
    size = extra.size(1)
    enter, keep, candidate, show = gates.chunk(4, dim=1)
    d_hidden, d_memory = d_out[:, :size], d_out[:, size:]
    d_memory = d_memory + d_hidden * show * (1 - extra.square())
    d_new[:, :size] = d_memory * candidate * enter * (1 - enter)
    d_new[:, size : 2 * size] = d_memory * state[:, size:] * keep * (1 - keep)
    d_new[:, 2 * size : 3 * size] = d_memory * enter * (1 - candidate.square())
    d_new[:, 3 * size :] = d_hidden * extra * show * (1 - show)
    d_old.copy_(d_new)
    d_state = torch.zeros_like(d_out)
    torch.mul(d_memory, keep, out=d_state[:, size:])
    return d_state


def tanh_step(new: Tensor, old: Tensor, state: Tensor, extra: Tensor, out: Tensor) -> None:
    """Compute s′ = tanh(n + o), which is also the only gate; extra is not used."""
    torch.tanh(new.add_(old), out=new)
    out.copy_(new)


def tanh_gradient(
    d_out: Tensor, state: Tensor, gates: Tensor, extra: Tensor, d_new: Tensor, d_old: Tensor
) -> Tensor:
    """Compute ∂n = ∂o = ∂s′ ⊙ (1 − s′²); return 0."""
    torch.mul(d_out, 1 - gates.square(), out=d_new)
    d_old.copy_(d_new)
    return torch.zeros_like(d_out)


# function of `asr.models.cells` → its steps here
CELL_STEPS: Mapping[Callable[[Tensor, Tensor, State], State], CellSteps] = MappingProxyType(
    {
        gru: CellSteps(gru_step, gru_gradient),
        lstm: CellSteps(lstm_step, lstm_gradient),
        tanh: CellSteps(tanh_step, tanh_gradient),
    }
)
