"""Weights in few bits, as a model folder stores them and as training can foresee them.

In 8 bits each row of a matrix has a scale. In 4 bits each group of at most 64 columns of a row has
one; smaller matrices, convolutions and those of an odd number of columns stay in 8 bits. Vectors
are never rounded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

GROUP: Final = 64  # most columns that share a scale in 4 bits
LEAST: Final = 16_384  # numbers of a matrix in 4 bits; those of smaller ones are few
_TINY: Final = 1e-7  # least scale, about that of 16-bit floats


class Rounded(NamedTuple):
    """A weight as whole numbers times scales.

    whole: int8 of the weight's shape. scale: of 8 bits (rows,) in float32, of 4 bits (rows, groups)
    in float16.
    """

    whole: Tensor
    scale: Tensor

    def values(self) -> Tensor:
        """Return the weight that is computed with, in float32."""
        columns = self.whole.flatten(1).float()
        grouped = columns.reshape(*self.scale.shape, -1) * self.scale.float().unsqueeze(-1)
        return grouped.reshape(self.whole.shape)


def has_four_bits(value: Tensor) -> bool:
    """Return whether a weight is stored in 4 bits where these are asked for."""
    return value.dim() == 2 and value.numel() >= LEAST and value.size(1) % 2 == 0


def rounded(value: Tensor, bits: int) -> Rounded:
    """Round a weight of two dimensions or more to 8 or 4 bits.

    Values that are rounded already stay as they are.
    """
    rows = value.detach().float().flatten(1)
    if bits == 8 or not has_four_bits(value):
        scale = rows.abs().amax(1).clamp_min(1e-12) / 127  # (rows,)
        whole = (rows / scale[:, None]).round()
        return Rounded(whole.to(torch.int8).view(value.shape), scale)
    grouped = rows.view(len(rows), _groups(value.size(1)), -1)
    # The number of the largest magnitude becomes −8, so that all 16 levels are used.
    largest = grouped.gather(2, grouped.abs().argmax(2, keepdim=True))
    scale = (largest / -8).to(torch.float16)  # (rows, groups, 1)
    scale = torch.where(scale.abs() < _TINY, scale.new_tensor(_TINY), scale)
    whole = (grouped / scale.float()).round().clamp(-8, 7)
    return Rounded(whole.to(torch.int8).view(value.shape), scale.squeeze(2))


def nibbles(whole: Tensor) -> Tensor:
    """Pack (rows, columns) of −8 to 7 into bytes (rows, columns / 2): the left half is low."""
    shifted = (whole + 8).to(torch.uint8)
    left, right = shifted.chunk(2, dim=1)
    return (left | right << 4).contiguous()


def _groups(columns: int) -> int:
    """Return the least number of equal groups of at most `GROUP` columns."""
    count = -(-columns // GROUP)
    while columns % count:
        count += 1
    return count
