"""Augmentation of a batch of features on any device: masks over time and frequency, and noise."""

from collections.abc import Sequence

import torch
from torch import Tensor


def spec_augment(
    features: Tensor,
    lengths: Tensor,
    seeds: Sequence[int],
    *,
    time_masks: int,
    time_width: int,
    time_share: float,
    frequency_masks: int,
    frequency_width: int,
) -> Tensor:
    """Mask random time intervals and frequency bands (SpecAugment, Park et al. 2019).

    Masks differ between utterances. Widths are uniform from 0 to the maximum, positions
    uniform among those where the mask fits. Masked values are 0, the mean of normalised features.
    The input is not modified.

    Args:
        features: (B, F, mels), normalised.
        lengths: (B,) in frames; masks are within them.
        seeds: of the random draws, one an utterance: its masks do not depend on the others.
        time_masks: time masks per utterance.
        time_width: maximum width of a time mask, in frames of 10 ms.
        time_share: maximum width of a time mask as a share of its utterance (the paper's p).
        frequency_masks: frequency masks per utterance.
        frequency_width: maximum width of a frequency mask, in mel filters.

    Returns:
        (B, F, mels).
    """
    _, frames, mels = features.shape
    lengths = lengths.to(features.device)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    widest = (lengths * time_share).long().clamp(max=time_width)
    times = _stretches(lengths, widest, time_masks, frames, generators)
    bands = _stretches(
        torch.full_like(lengths, mels),
        torch.full_like(lengths, min(frequency_width, mels)),
        frequency_masks,
        mels,
        generators,
    )
    masked = times.unsqueeze(2) | bands.unsqueeze(1)  # (B, F, mels)
    return features.masked_fill(masked, 0.0)


def add_feature_noise(
    features: Tensor, lengths: Tensor, seeds: Sequence[int], deviation: float
) -> Tensor:
    """Add Gaussian noise of a standard deviation to features (B, F, ·) within lengths (B,).

    seeds: as in `spec_augment`.
    """
    noisy, device = features.clone(), features.device
    for row, length, seed in zip(noisy, lengths.tolist(), seeds, strict=True):
        generator = torch.Generator(device).manual_seed(seed)
        shape = row[:length].shape
        row[:length] += deviation * torch.randn(shape, generator=generator, device=device)
    return noisy


def _stretches(
    lengths: Tensor, widest: Tensor, count: int, size: int, generators: Sequence[torch.Generator]
) -> Tensor:
    """Draw `count` intervals of up to `widest` within `lengths` → (B, size) bool, True inside."""
    draws = torch.stack([torch.rand(2, count, generator=each) for each in generators], 1)
    draws = draws.to(lengths.device)
    width = (draws[0] * (widest + 1).unsqueeze(1)).long()  # (B, count)
    start = (draws[1] * (lengths.unsqueeze(1) - width + 1)).long()
    position = torch.arange(size, device=lengths.device)
    after = position >= start.unsqueeze(2)  # (B, count, size)
    before = position < (start + width).unsqueeze(2)
    return (after & before).any(1)
