"""Penalties on attention weights for the loss: weights (B, U, T) → one number.

steps: (B, U) bool, True for the target steps that count.
"""

from __future__ import annotations

import torch
from torch import Tensor


def entropy(weights: Tensor) -> Tensor:
    """−Σ_j w_j ln w_j in nats: weights (…, T) → (…), between 0 and ln T."""
    return -torch.xlogy(weights, weights.clamp_min(1e-12)).sum(-1)


def entropy_penalty(weights: Tensor, steps: Tensor, target: float = 0.0) -> Tensor:
    """Mean distance |H − target| between each step's entropy H and a target, in nats.

    In the loss, a positive factor moves the entropy towards the target; with target 0 it sharpens
    the weights. A negative factor with target 0 flattens them.
    """
    return _mean_over((entropy(weights) - target).abs(), steps)


def diagonality_penalty(
    weights: Tensor, steps: Tensor, lengths: Tensor, deviation: float = 0.2
) -> Tensor:
    """Mean weight far from the diagonal, from first to last position: between 0 and 1.

    Σ_j w_uj · (1 − exp(−(u/U − j/T)² / (2·deviation²))), with u/U and j/T the relative positions in
    target and annotations. lengths: (B,) annotations of each utterance. Source: guided attention,
    Tachibana et al. 2018, eq. (2). It degrades uneven or long speech, so use it in the first epochs
    only.
    """
    ends = steps.sum(1).clamp_min(1)  # (B,)
    targets = torch.arange(weights.size(1), device=weights.device) / ends[:, None]  # (B, U)
    places = torch.arange(weights.size(2), device=weights.device) / lengths[:, None]  # (B, T)
    distance = targets[:, :, None] - places[:, None, :]  # (B, U, T)
    cost = 1 - torch.exp(-distance.square() / (2 * deviation**2))
    return _mean_over((weights * cost).sum(-1), steps)


def coverage_penalty(weights: Tensor, steps: Tensor) -> Tensor:
    """Mean weight on positions of earlier steps: Σ_j min(w_uj, Σ_{v<u} w_vj).

    Between 0 and 1. Source: See, Liu and Manning 2017, eq. (12).
    """
    before = weights.cumsum(1) - weights
    return _mean_over(torch.minimum(weights, before).sum(-1), steps)


def _mean_over(values: Tensor, steps: Tensor) -> Tensor:
    """Mean of values (B, U) over the counted steps; 0 if there are none."""
    return (values * steps).sum() / steps.sum().clamp_min(1)
