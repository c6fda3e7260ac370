"""Masks of attention: padding, silence, and a window around the last alignment.

Padding and silence are known before decoding and are part of the mask of the annotations.
The window (the "location mask") moves with every step and is computed from the last alignment.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from asr.attention.contract import Alignment, Annotations

CENTRES = ("expectation", "median")


def restrict(annotations: Annotations, allowed: Tensor) -> Annotations:
    """Also mask positions where `allowed` (B, T) is False."""
    return Annotations(annotations.values, annotations.mask & allowed)


def pool_mask(mask: Tensor, reduction: int) -> Tensor:
    """Pool a mask of input frames (B, F) to annotations (B, ⌈F / reduction⌉).

    An annotation is allowed if any of its frames is.
    """
    missing = -mask.size(1) % reduction
    padded = functional.pad(mask, (0, missing))
    pooled: Tensor = padded.unflatten(1, (-1, reduction)).any(-1)
    return pooled


def expected_position(weights: Tensor) -> Tensor:
    """Σ_j j·w_j: weights (…, T) → (…), in annotations; 0 where the weights are all 0."""
    places = torch.arange(weights.size(-1), device=weights.device, dtype=weights.dtype)
    return weights @ places


def median_position(weights: Tensor) -> Tensor:
    """Position of the median of the weights: (…, T) → (…); 0 if all are 0."""
    half = weights.sum(-1, keepdim=True) / 2
    return (weights.cumsum(-1) < half).sum(-1).to(weights.dtype)


@dataclass(frozen=True)
class Window:
    """A window around the position that the last step attended to.

    back, ahead: reach in annotations before and after the centre.
    soft: False masks all positions outside; True lowers the energies smoothly instead, by
        d² / (2·σ²) for a distance of d annotations, with σ = back / 2 before and ahead / 2 after
        the centre, so that weights are small two deviations away.
    centre: "expectation" or "median" of the last weights. The median is robust against small
        distant weights.
    stride: every stride-th position from the first on stays allowed outside the window, as in the
        fixed pattern of Child et al. 2019, section 4.3. 0: none.
    """

    back: int
    ahead: int
    soft: bool = False
    centre: str = "median"
    stride: int = 0

    def __post_init__(self) -> None:
        if self.back < 1 or self.ahead < 1:
            raise ValueError(
                f"a window must reach at least 1 annotation both ways, "
                f"got back={self.back}, ahead={self.ahead}"
            )
        if self.centre not in CENTRES:
            raise ValueError(f"window centre {self.centre!r} is not one of: {', '.join(CENTRES)}")
        if self.stride < 0:
            raise ValueError(f"window stride must be 0 (none) or more, got {self.stride}")

    def centres(self, weights: Tensor) -> Tensor:
        """Return the centre of the window (…) for the last weights (…, T); no gradient."""
        find = expected_position if self.centre == "expectation" else median_position
        return find(weights.detach())

    def distances(self, previous: Alignment) -> Tensor:
        """Return signed distances (B, N, T) of all positions from the centre (no gradient)."""
        weights = previous.weights.detach()
        places = torch.arange(weights.size(-1), device=weights.device, dtype=weights.dtype)
        return places - self.centres(weights)[..., None]

    def apply(
        self, energies: Tensor, allowed: Tensor, previous: Alignment
    ) -> tuple[Tensor, Tensor]:
        """Restrict energies (B, N, T) and allowed positions (B, 1 or N, T) to the window.

        Before the first step the window is at the first annotation. A hard window without any
        allowed position (in a long masked silence) is ignored for that step, because a context
        needs an allowed position.
        """
        distance = self.distances(previous)
        if self.stride:
            distance[..., :: self.stride] = 0
        if self.soft:
            deviation = torch.where(distance < 0, self.back / 2, self.ahead / 2)
            return energies - (distance / deviation).square() / 2, allowed
        inside = allowed & (distance >= -self.back) & (distance <= self.ahead)
        return energies, torch.where(inside.any(-1, keepdim=True), inside, allowed)
