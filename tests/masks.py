"""Masks for tests: what attention may be given."""

import torch
from torch import Tensor

KINDS = ("all", "padded", "gaps", "nothing")


def make_mask(kind: str, batch: int, length: int) -> Tensor:
    """Return a mask (batch, length): all allowed, one padded, with gaps, or one with nothing."""
    mask = torch.ones(batch, length, dtype=torch.bool)
    if kind == "padded":
        mask[-1, length // 2 + 1 :] = False
    if kind == "gaps":
        mask = torch.rand(batch, length) < 0.3
        mask[0, : length - 1] = False
    if kind == "nothing":
        mask[-1] = False
    return mask
