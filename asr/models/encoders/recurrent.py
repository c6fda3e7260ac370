"""Bidirectional recurrent layers that never read padding, without the cost of packing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from asr.errors import UserError

READERS: Mapping[str, type[nn.LSTM] | type[nn.GRU]] = MappingProxyType(
    {"lstm": nn.LSTM, "gru": nn.GRU}
)


class _PermuteRows(torch.autograd.Function):
    """Rows taken in an order that undoes itself, so the backward pass is the same gather."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return gradients[0].index_select(0, order), None


def reversal(lengths: Tensor, longest: int) -> Tensor:
    """Return the order (B·T,) that reverses each utterance within its own length."""
    places = torch.arange(longest, device=lengths.device)
    ends = lengths[:, None]
    order = torch.where(places < ends, ends - 1 - places, places)  # (B, T)
    starts = torch.arange(len(lengths), device=lengths.device)[:, None] * longest
    return (order + starts).flatten()


class Bidirectional(nn.Module):
    """Two recurrent layers, the second over the sequence reversed by its own length.

    Neither reads padding before content, so what an utterance gets does not depend on the
    batch it is in; packing would give the same at several times the cost on a CPU.
    """

    def __init__(self, input_size: int, state_size: int, cell: str = "lstm") -> None:
        """Make the layers; cell is a name in `READERS`, state_size that of one direction.

        Raises:
            UserError: an unknown cell.
        """
        super().__init__()
        if cell not in READERS:
            raise UserError(f"encoder.cell {cell!r} is not one of: {', '.join(READERS)}")
        self.ahead = READERS[cell](input_size, state_size, batch_first=True)
        self.back = READERS[cell](input_size, state_size, batch_first=True)

    def forward(self, inputs: Tensor, order: Tensor) -> Tensor:
        """Read inputs (B, T, I) both ways → (B, T, 2·state); `order` comes from `reversal`.

        What stands at padded places is of no meaning: mask it before it is used.
        """
        ahead, _ = self.ahead(inputs)
        back, _ = self.back(self._permute(inputs, order))
        return torch.cat([ahead, self._permute(back, order)], dim=-1)

    @staticmethod
    def _permute(values: Tensor, order: Tensor) -> Tensor:
        rows = values.reshape(-1, values.size(-1))
        permuted: Tensor = _PermuteRows.apply(rows, order)  # type: ignore[no-untyped-call]  # torch
        return permuted.view(values.shape)
