"""From energies to weights. All take (…, T) energies and a mask, and give rows that sum to 1."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(energies: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed places; exactly 0 elsewhere, and all 0 where nothing is allowed.

    energies: (…, T). allowed: bool, broadcastable to energies. Computed in float32 at least.
    Finite in value and gradient even for a row without any allowed place.
    """
    energies = at_least_float32(energies)
    masked = energies.masked_fill(~allowed, torch.finfo(energies.dtype).min)
    return torch.softmax(masked, dim=-1) * allowed


def smoothed(energies: Tensor, allowed: Tensor) -> Tensor:
    """Sigmoid smoothing: σ(e) / Σ σ(e) over the allowed places.

    Spreads the weight over more places than the softmax (Chorowski et al. 2015, section 2.3).
    Shapes as in `masked_softmax`.
    """
    scores = torch.sigmoid(at_least_float32(energies)) * allowed
    total = scores.sum(-1, keepdim=True)
    return scores / total.clamp_min(torch.finfo(torch.float32).tiny)


def at_least_float32(values: Tensor) -> Tensor:
    """Widen 16-bit values to float32; leave float32 and float64 as they are."""
    return values if values.dtype == torch.float64 else values.float()


NORMALIZERS = {"softmax": masked_softmax, "smoothed": smoothed}
