"""Normalisers, from energies to weights that sum to 1 over the allowed positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def masked_softmax(energies: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed positions; exactly 0 elsewhere, and 0 if none is allowed.

    energies: (…, T). allowed: bool, broadcastable to energies. Computed in float32 at least.
    Value and gradient are finite, also for a row without an allowed position.
    """
    return torch.softmax(_without(energies, allowed), dim=-1) * allowed


@dataclass(frozen=True)
class Normalizer:
    """Base of all normalisers: energies (…, T) and allowed positions → weights.

    temperature: divides the energies; values below 1 sharpen, above 1 flatten the weights. Its
        inverse is β of Chorowski et al. 2015, section 2.3.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")

    def __call__(self, energies: Tensor, allowed: Tensor, training: bool = False) -> Tensor:
        """Return weights in float32 at least, 0 where `allowed` is False; shapes as above.

        allowed: bool, broadcastable to energies. training: whether `Hard` draws at random.
        """
        energies = at_least_float32(energies)
        if self.temperature != 1:
            energies = energies / self.temperature
        return self.weigh(energies, allowed, training)

    def weigh(self, energies: Tensor, allowed: Tensor, training: bool) -> Tensor:
        """Compute weights from energies that are already divided by the temperature."""
        raise NotImplementedError  # defined by each normaliser


@dataclass(frozen=True)
class Softmax(Normalizer):
    """exp(e) / Σ exp(e)."""

    def weigh(self, energies: Tensor, allowed: Tensor, training: bool) -> Tensor:
        """See `masked_softmax`."""
        return masked_softmax(energies, allowed)


@dataclass(frozen=True)
class Smoothed(Normalizer):
    """σ(e) / Σ σ(e), which spreads the weight over more positions than the softmax.

    Source: Chorowski et al. 2015, section 2.3.
    """

    def weigh(self, energies: Tensor, allowed: Tensor, training: bool) -> Tensor:
        """See the class."""
        scores = torch.sigmoid(energies) * allowed
        total = scores.sum(-1, keepdim=True)
        return scores / total.clamp_min(torch.finfo(torch.float32).tiny)


@dataclass(frozen=True)
class TopK(Normalizer):
    """Softmax over the positions with the highest energies, including ties.

    top_k: number of positions. Source: Chorowski et al. 2015, section 2.3.
    """

    top_k: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")

    def weigh(self, energies: Tensor, allowed: Tensor, training: bool) -> Tensor:
        """See the class."""
        masked = _without(energies, allowed)
        lowest = masked.topk(min(self.top_k, masked.size(-1))).values[..., -1:]
        return masked_softmax(energies, allowed & (masked >= lowest))


@dataclass(frozen=True)
class Hard(Normalizer):
    """All weight on one position: sampled from the softmax in training, else the maximum.

    Sampling adds Gumbel noise from torch's default generator to the energies and takes the
    maximum; the gradient is that of the softmax of the noisy energies ("straight-through", biased).
    No log-probability is returned: REINFORCE needs an attention of its own, as in
    recipes/ablations/reinforce.py.
    Source: Jang, Gu and Poole 2017, section 2.2, whose τ is 1 here.
    """

    def weigh(self, energies: Tensor, allowed: Tensor, training: bool) -> Tensor:
        """See the class."""
        if training:
            energies = energies - torch.empty_like(energies).exponential_().log()
        soft = masked_softmax(energies, allowed)
        one = functional.one_hot(soft.argmax(-1), soft.size(-1)).to(soft.dtype) * allowed
        return one + (soft - soft.detach()) if training else one


SOFTMAX = Softmax()

# name in a config → class; a new normaliser needs one line here.
NORMALIZERS: Mapping[str, type[Normalizer]] = MappingProxyType(
    {"softmax": Softmax, "smoothed": Smoothed, "top_k": TopK, "hard": Hard}
)


def normalizer_class(name: str) -> type[Normalizer]:
    """Return the class of a normaliser by its name in `NORMALIZERS`.

    Raises:
        ValueError: no normaliser of that name.
    """
    if name not in NORMALIZERS:
        raise ValueError(f"normalizer {name!r} is not one of: {', '.join(sorted(NORMALIZERS))}")
    return NORMALIZERS[name]


def build_normalizer(name: str, temperature: float = 1.0, top_k: int = 0) -> Normalizer:
    """Make a normaliser by its name.

    top_k: for normalisers that have it; 0 keeps their default.
    """
    options: dict[str, Any] = {"top_k": top_k} if top_k else {}
    return normalizer_class(name)(temperature, **options)


def at_least_float32(values: Tensor) -> Tensor:
    """Convert 16-bit values to float32; float32 and float64 are unchanged."""
    return values if values.dtype == torch.float64 else values.float()


def _without(energies: Tensor, allowed: Tensor) -> Tensor:
    """Set the energies of masked positions to the lowest value of their dtype."""
    energies = at_least_float32(energies)
    return energies.masked_fill(~allowed, torch.finfo(energies.dtype).min)
