"""Log-mel features and their normalisation, independent of the batch.

A frame belongs to an utterance only if its whole window does. Nothing is padded or mirrored at the
edges, so no frame depends on padding or on the other utterances of a batch.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn

from asr.audio.mel import HOP_MS, MELS, WINDOW_MS, mel_corners, mel_filters, triangles
from asr.audio.read import SAMPLE_RATE

_SMALLEST_DEVIATION = 1e-5  # lower bound, for filters that never vary


class Features(Protocol):
    """A front end: padded samples in, frames of features out."""

    @property
    def size(self) -> int:
        """Width of a frame."""

    @property
    def seconds_per_frame(self) -> float:
        """Seconds from one frame to the next."""

    def __call__(
        self, samples: Tensor, lengths: Tensor, warps: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return features (B, F, size), 0 beyond the frames (B,), which are the second result."""


class LogMel(nn.Module):
    """Natural logarithm of the mel power spectrum, one frame every 10 ms.

    Periodic Hann window, power spectrum of an FFT zero-padded to the next power of two, Slaney's
    mel filters. An utterance of S samples has 1 + (S - 400) // 160 frames; one shorter than a
    window (25 ms) has none.

    Args:
        sample_rate: of the input, in Hz.
        mels: number of filters.
        window_ms: length of the window of a frame, in milliseconds.
        hop_ms: from one frame to the next, in milliseconds.
        floor: smallest power before the logarithm; 1e-10 lies just below the rounding noise of
            16-bit samples, so only digital silence reaches it.
    """

    window: Tensor
    filters: Tensor

    def __init__(
        self,
        sample_rate: int = SAMPLE_RATE,
        mels: int = MELS,
        window_ms: int = WINDOW_MS,
        hop_ms: int = HOP_MS,
        floor: float = 1e-10,
    ) -> None:
        super().__init__()
        self.sample_rate = sample_rate
        self.mels = mels
        self.floor = floor
        self.window_size = sample_rate * window_ms // 1000
        self.hop_size = sample_rate * hop_ms // 1000
        self.fft_size = 1 << (self.window_size - 1).bit_length()
        # Determined by the arguments, so not saved with the weights.
        self.register_buffer("window", torch.hann_window(self.window_size), persistent=False)
        self.register_buffer(
            "filters",
            torch.from_numpy(mel_filters(sample_rate, self.fft_size, mels)),
            persistent=False,
        )

    @property
    def size(self) -> int:
        """See `Features.size`."""
        return self.mels

    @property
    def seconds_per_frame(self) -> float:
        """See `Features.seconds_per_frame`."""
        return self.hop_size / self.sample_rate

    def frame_lengths(self, lengths: Tensor) -> Tensor:
        """Return the number of frames of utterances of `lengths` samples (integers, any shape)."""
        whole = torch.div(lengths - self.window_size, self.hop_size, rounding_mode="floor") + 1
        return whole.clamp(min=0)

    def forward(
        self, samples: Tensor, lengths: Tensor, warps: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Compute the features of a padded batch.

        Args:
            samples: (B, S), nominally in [-1, 1]; beyond its length an utterance is ignored.
            lengths: (B,) in samples.
            warps: (B,), of each utterance's filters, on the CPU; see `mel_filters`.

        Returns:
            Features (B, F, mels) float32, zero beyond an utterance's last frame, and its number of
            frames (B,).
        """
        frame_lengths = self.frame_lengths(lengths)
        if samples.size(1) < self.window_size:
            return self.filters.new_zeros(samples.size(0), 0, self.mels), frame_lengths
        # Under autocast the product with the filters would run in 8 bits of precision.
        with torch.autocast(samples.device.type, enabled=False):
            frames = samples.float().unfold(1, self.window_size, self.hop_size)  # (B, F, window)
            spectrum = torch.fft.rfft(frames * self.window, n=self.fft_size)
            power = torch.view_as_real(spectrum).square().sum(-1)  # (B, F, bins)
            filters = self.filters if warps is None else self._warped(warps)
            features = (power @ filters.mT).clamp(min=self.floor).log()
        return features.masked_fill(~_within(features, frame_lengths), 0.0), frame_lengths

    def _warped(self, warps: Tensor) -> Tensor:
        """Return `mel_filters` (B, mels, bins) of factors (B,), made on the device of the model."""
        drawn = mel_corners(self.sample_rate, self.mels, warps.double().numpy())
        corners = torch.from_numpy(drawn).to(self.filters.device)
        count = self.fft_size // 2 + 1
        bins = torch.linspace(0, self.sample_rate / 2, count).to(corners)
        filters: Tensor = triangles(corners, bins)
        return filters.to(self.filters.dtype)


class Normalizer(nn.Module):
    """Normalises features, filter by filter; frames beyond an utterance stay zero.

    First, optionally, the mean of each utterance is subtracted, which removes the effects of
    microphone and loudness; then the features are normalised by the mean and the standard
    deviation of the training data (see `fit`), which are saved with the weights.

    Args:
        mels: number of filters.
        per_utterance_mean: subtract the mean of each utterance first.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mels: int = MELS, per_utterance_mean: bool = True) -> None:
        super().__init__()
        self.per_utterance_mean = per_utterance_mean
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("std", torch.ones(mels))

    @classmethod
    def fit(
        cls,
        batches: Iterable[tuple[Tensor, Tensor]],
        mels: int = MELS,
        per_utterance_mean: bool = True,
    ) -> "Normalizer":
        """Compute mean and deviation over all frames of batches of (features, frame lengths).

        Args:
            batches: features (B, F, mels) with lengths (B,), as `LogMel` returns them.

        Raises:
            ValueError: no batch holds a frame.
        """
        normalizer = cls(mels, per_utterance_mean)
        count = 0
        total = torch.zeros(mels, dtype=torch.float64)
        squares = torch.zeros(mels, dtype=torch.float64)
        for features, lengths in batches:
            within = _within(features, lengths)
            centred = normalizer.centre(features, within).masked_fill(~within, 0.0).double().cpu()
            count += int(within.sum())
            total += centred.sum((0, 1))
            squares += centred.square().sum((0, 1))
        if count == 0:
            raise ValueError("no frames to fit the normalisation to: give at least 25 ms of audio")
        mean = total / count
        deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
        normalizer.mean.copy_(mean)
        normalizer.std.copy_(deviation.clamp(min=_SMALLEST_DEVIATION))
        return normalizer

    def centre(self, features: Tensor, within: Tensor) -> Tensor:
        """Subtract the mean of each utterance, if this normaliser does; `within` is (B, F, 1)."""
        if not self.per_utterance_mean:
            return features
        frames = within.sum(1, keepdim=True).clamp(min=1)
        total = features.masked_fill(~within, 0.0).sum(1, keepdim=True)
        return features - total / frames  # (B, F, mels)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Normalise features (B, F, mels) of `lengths` frames (B,) → (B, F, mels)."""
        within = _within(features, lengths)
        normalised = (self.centre(features, within) - self.mean) / self.std
        return normalised.masked_fill(~within, 0.0)


def _within(features: Tensor, lengths: Tensor) -> Tensor:
    """Return which frames belong to their utterance, (B, F, 1) bool."""
    positions = torch.arange(features.size(1), device=features.device)
    return (positions < lengths.to(features.device).unsqueeze(1)).unsqueeze(2)
