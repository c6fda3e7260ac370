"""Bidirectional recurrent layers whose states do not depend on padding, without packing."""

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
    """A permutation of rows that is its own inverse, so the backward pass is the same gather."""

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

    Neither reads padding before content, so the result of an utterance does not depend on its
    batch. Packing has the same result and takes several times as long on a CPU.
    """

    def __init__(self, input_size: int, state_size: int, cell: str = "lstm") -> None:
        """Make the layers; cell: a name in `READERS`. state_size: of one direction.

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

        The result at padded positions is undefined: mask it.
        """
        # Autocast would run the layers in 16 bits: on a GPU in float16, where small gradients
        # vanish, on a CPU with a backward pass that takes twice as long as in 32 bits.
        device = inputs.device.type
        is_narrow = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False):
            inputs = inputs.float() if is_narrow else inputs
            ahead, _ = self.ahead(inputs)
            back, _ = self.back(self._permute(inputs, order))
        return torch.cat([ahead, self._permute(back, order)], dim=-1)

    @staticmethod
    def _permute(values: Tensor, order: Tensor) -> Tensor:
        rows = values.reshape(-1, values.size(-1))
        permuted: Tensor = _PermuteRows.apply(rows, order)  # type: ignore[no-untyped-call]  # torch
        return permuted.view(values.shape)
