"""Weights in few bits, as a model folder stores them and as training can foresee them.

In 8 bits each row of a matrix has a scale. In 4 or 3 bits each group of at most 128 columns of a
row has one; smaller matrices, convolutions and those whose columns do not fill whole bytes stay in
8 bits. Vectors are never rounded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

GROUP: Final = 128  # most columns that share a scale in less than 8 bits
LEAST: Final = 16_384  # numbers of a matrix in less than 8 bits; those of smaller ones are few
SHARES: Final = (1.0, 0.85, 0.7)  # of a group's largest magnitude, beyond which numbers are clipped
_TINY: Final = 1e-7  # least scale, about that of 16-bit floats


class Rounded(NamedTuple):
    """A weight as whole numbers times scales.

    whole: int8 of the weight's shape. scale: of 8 bits (rows,) in float32, of fewer (rows, groups)
    in float16.
    """

    whole: Tensor
    scale: Tensor

    def values(self) -> Tensor:
        """Return the weight that is computed with, in float32."""
        columns = self.whole.flatten(1).float()
        grouped = columns.reshape(*self.scale.shape, -1) * self.scale.float().unsqueeze(-1)
        return grouped.reshape(self.whole.shape)


def is_grouped(value: Tensor) -> bool:
    """Return whether a weight is stored in less than 8 bits where these are asked for."""
    return value.dim() == 2 and value.numel() >= LEAST and value.size(1) % 8 == 0


def rounded(value: Tensor, bits: int) -> Rounded:
    """Round a weight of two dimensions or more to 8, 4 or 3 bits.

    Values that are rounded already stay as they are.
    """
    rows = value.detach().float().flatten(1)
    if bits == 8 or not is_grouped(value):
        scale = rows.abs().amax(1).clamp_min(1e-12) / 127  # (rows,)
        whole = (rows / scale[:, None]).round()
        return Rounded(whole.to(torch.int8).view(value.shape), scale)
    grouped = rows.view(len(rows), _groups(value.size(1)), -1)
    largest = grouped.gather(2, grouped.abs().argmax(2, keepdim=True))
    whole, scale = _with_scale(grouped, largest, bits)
    error = _error(grouped, whole, scale)
    for share in SHARES[1:]:
        other, its_scale = _with_scale(grouped, share * largest, bits)
        its_error = _error(grouped, other, its_scale)
        is_better = its_error < error
        whole, scale = (
            torch.where(is_better, other, whole),
            torch.where(is_better, its_scale, scale),
        )
        error = torch.minimum(error, its_error)
    return Rounded(whole.to(torch.int8).view(value.shape), scale.squeeze(2))


def _with_scale(grouped: Tensor, largest: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Round with `largest` (rows, groups, 1) as the lowest level, so that all levels are used."""
    lowest = -(2 ** (bits - 1))
    scale = (largest / lowest).to(torch.float16)
    scale = torch.where(scale.abs() < _TINY, scale.new_tensor(_TINY), scale)
    return (grouped / scale.float()).round_().clamp_(lowest, -lowest - 1), scale


def _error(grouped: Tensor, whole: Tensor, scale: Tensor) -> Tensor:
    """Return the sum of squared errors (rows, groups, 1)."""
    return torch.addcmul(grouped, whole, scale.float(), value=-1).square_().sum(2, keepdim=True)


def planes(whole: Tensor, bits: int) -> Tensor:
    """Pack whole numbers (rows, columns) into bytes (bits, rows, columns / 8), a bit in each plane.

    The lowest bits come first, of the numbers minus the lowest one that `bits` can hold.
    """
    shifted = (whole.to(torch.int16) + 2 ** (bits - 1)).view(len(whole), -1, 8)
    weights = 2 ** torch.arange(7, -1, -1)  # the first column is the highest bit of a byte
    packed = [((shifted >> bit & 1) * weights).sum(2) for bit in range(bits)]
    return torch.stack(packed).to(torch.uint8)


def _groups(columns: int) -> int:
    """Return the least number of equal groups of at most `GROUP` columns."""
    count = -(-columns // GROUP)
    while columns % count:
        count += 1
    return count
