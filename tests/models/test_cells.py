"""Cells equal torch's, split into products and gates."""

import pytest
import torch

from asr.models.cells import CELLS, Cell, gru, lstm, tanh

SIZE = 4
KINDS = {"gru": torch.nn.GRUCell, "lstm": torch.nn.LSTMCell, "tanh": torch.nn.RNNCell}


def given(kind):
    torch.manual_seed(3)
    inputs = torch.randn(2, 3, 5, dtype=torch.float64)
    state = tuple(torch.randn(2, 3, SIZE, dtype=torch.float64) for _ in range(CELLS[kind].parts))
    return Cell(CELLS[kind], 5, SIZE).double(), inputs, state


def as_torch_s(cell, kind):
    theirs = KINDS[kind](5, SIZE).double()
    theirs.weight_ih.data.copy_(cell.input_gates.weight)
    theirs.weight_hh.data.copy_(cell.state_gates.weight)
    theirs.bias_ih.data.zero_()
    theirs.bias_hh.data.copy_(cell.state_gates.bias)
    return theirs


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_torch_s(kind):
    cell, inputs, state = given(kind)
    rows = [each.flatten(0, 1) for each in state]
    theirs = as_torch_s(cell, kind)(inputs.flatten(0, 1), rows if kind == "lstm" else rows[0])
    wanted = theirs if kind == "lstm" else [theirs]
    for found, each in zip(cell(inputs, state), wanted, strict=True):
        torch.testing.assert_close(found.flatten(0, 1), each)


@pytest.mark.parametrize(("advance", "count"), [(gru, 3), (lstm, 4), (tanh, 1)])
def test_a_state_keeps_its_precision_where_the_gates_have_less(advance, count):
    gates = torch.randn(1, 1, count * SIZE, dtype=torch.bfloat16)
    state = (torch.randn(1, 1, SIZE),) * (2 if advance is lstm else 1)
    for _ in range(2):
        state = advance(gates, gates, state)
    assert all(each.dtype == torch.float32 for each in state)
