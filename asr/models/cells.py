"""Recurrent cells, split into matrix products and elementwise gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]  # h; with an LSTM h and c; each (B, N, H)


def gru(new: Tensor, old: Tensor, state: State) -> State:
    """Update a gated recurrent unit; gates: reset, update and candidate, in this order.

    new, old: (B, N, 3H), contributions of the inputs and the old state to the gates; each may have
    16 bits, the state keeps its precision. The reset gate is applied after the product with the
    old state (as in cuDNN), which needs one product less than Cho et al. 2014.
    """
    (hidden,) = state
    new, old = new.to(hidden.dtype), old.to(hidden.dtype)
    size = hidden.size(-1)
    reset, update = torch.sigmoid(new[..., : 2 * size] + old[..., : 2 * size]).chunk(2, -1)
    candidate = torch.tanh(new[..., 2 * size :] + reset * old[..., 2 * size :])
    return (torch.lerp(candidate, hidden, update),)


def lstm(new: Tensor, old: Tensor, state: State) -> State:
    """Update a long short-term memory; gates: input, forget, candidate and output, in this order.

    new, old: (B, N, 4H), as in `gru`. Source: Hochreiter and Schmidhuber 1997, with the forget
    gate of Gers et al. 2000; no peepholes.
    """
    memory = state[1]
    gates = new.to(memory.dtype) + old.to(memory.dtype)
    enter, keep, candidate, show = gates.chunk(4, -1)
    memory = torch.sigmoid(keep) * memory + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(show) * torch.tanh(memory), memory


def tanh(new: Tensor, old: Tensor, state: State) -> State:
    """Update a simple recurrent network without gates: s′ = tanh(n + o).

    new, old: (B, N, H), as in `gru`. Source: Elman 1990, with a tanh.
    """
    precision = state[0].dtype
    return (torch.tanh(new.to(precision) + old.to(precision)),)


class CellKind(NamedTuple):
    """gates: number of gate vectors of size H. parts: number of state vectors of size H."""

    gates: int
    parts: int
    advance: Callable[[Tensor, Tensor, State], State]


CELLS: Mapping[str, CellKind] = MappingProxyType(
    {
        "gru": CellKind(gates=3, parts=1, advance=gru),
        "lstm": CellKind(gates=4, parts=2, advance=lstm),
        "tanh": CellKind(gates=1, parts=1, advance=tanh),
    }
)


class Cell(nn.Module):
    """A cell whose input is known only at each step."""

    def __init__(
        self, kind: CellKind, input_size: int, state_size: int, layer_norm: bool = False
    ) -> None:
        """Make the cell; layer_norm: see `gate_norm`."""
        super().__init__()
        self.kind = kind
        gates = kind.gates * state_size
        self.input_gates = nn.Linear(input_size, gates, bias=False)
        self.state_gates = nn.Linear(state_size, gates)
        self.input_norm = gate_norm(layer_norm, gates)
        self.state_norm = gate_norm(layer_norm, gates)

    def forward(self, inputs: Tensor, state: State) -> State:
        """Compute the next state from inputs (B, N, I) and a state."""
        new = self.input_norm(self.input_gates(inputs))
        old = self.state_norm(self.state_gates(state[0]))
        return self.kind.advance(new, old, state)


def gate_norm(wanted: bool, size: int) -> nn.Module:
    """Build the layer norm of one of the two terms of the gates, or an identity.

    Source: Ba, Kiros and Hinton 2016, in the form for an LSTM, without the norm of its c.
    """
    return nn.LayerNorm(size) if wanted else nn.Identity()
