"""Augmentation of a batch of features on any device: masks over time and frequency, and noise."""

import torch
from torch import Tensor


def spec_augment(
    features: Tensor,
    lengths: Tensor,
    generator: torch.Generator,
    *,
    time_masks: int = 2,
    time_width: int = 40,
    time_share: float = 0.05,
    frequency_masks: int = 2,
    frequency_width: int = 27,
) -> Tensor:
    """Mask random time intervals and frequency bands (SpecAugment, Park et al. 2019).

    Masks differ between utterances. Widths are uniform from 0 to the maximum, positions
    uniform among those where the mask fits. Masked values are 0, the mean of normalised features.
    The input is not modified.

    Args:
        features: (B, F, mels), normalised.
        lengths: (B,) in frames; masks are within them.
        generator: for all random draws.
        time_masks: time masks per utterance.
        time_width: maximum width of a time mask, in frames of 10 ms.
        time_share: maximum width of a time mask as a share of its utterance (the paper's p).
        frequency_masks: frequency masks per utterance.
        frequency_width: maximum width of a frequency mask, in mel filters.

    Returns:
        (B, F, mels).
    """
    _, frames, mels = features.shape
    lengths = lengths.to(generator.device)
    widest = (lengths * time_share).long().clamp(max=time_width)
    times = _stretches(lengths, widest, time_masks, frames, generator)
    bands = _stretches(
        torch.full_like(lengths, mels),
        torch.full_like(lengths, min(frequency_width, mels)),
        frequency_masks,
        mels,
        generator,
    )
    masked = times.unsqueeze(2) | bands.unsqueeze(1)  # (B, F, mels)
    return features.masked_fill(masked.to(features.device), 0.0)


def add_feature_noise(
    features: Tensor, lengths: Tensor, generator: torch.Generator, deviation: float
) -> Tensor:
    """Add Gaussian noise of a standard deviation to features (B, F, ·) within lengths (B,)."""
    noise = torch.randn(features.shape, generator=generator, device=features.device)
    places = torch.arange(features.size(1), device=features.device)
    within = (places < lengths.to(features.device)[:, None])[:, :, None]
    return features + deviation * noise * within


def _stretches(
    lengths: Tensor, widest: Tensor, count: int, size: int, generator: torch.Generator
) -> Tensor:
    """Draw `count` intervals of up to `widest` within `lengths` → (B, size) bool, True inside."""
    draws = torch.rand((2, lengths.size(0), count), generator=generator, device=generator.device)
    width = (draws[0] * (widest + 1).unsqueeze(1)).long()  # (B, count)
    start = (draws[1] * (lengths.unsqueeze(1) - width + 1)).long()
    position = torch.arange(size, device=generator.device)
    after = position >= start.unsqueeze(2)  # (B, count, size)
    before = position < (start + width).unsqueeze(2)
    return (after & before).any(1)
