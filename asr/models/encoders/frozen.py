"""Features that are the frames of a frozen public encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from asr.audio.cache import ContentCache
from asr.errors import UserError
from asr.models.encoders.public import (
    LONGEST_PART,
    SECONDS_PER_FRAME,
    frame_count,
    open_frames,
)
from asr.models.encoders.public_weights import ENCODERS
from asr.models.encoders.whisper import WhisperEncoder, load_whisper


class FrozenFeatures(nn.Module):
    """Frames of a public encoder (`asr.models.encoders.public`), an `asr.audio.features.Features`.

    The encoder is loaded on first use. It has no parameters here: its weights are neither trained
    nor saved with the model. Each utterance is encoded on its own, on the CPU, in 8 bits. If no
    frames are kept on disk, Whisper's encoders encode samples on a GPU there in batches, in the
    precision of autocast; only utterances longer than 29 s are still encoded on the CPU.
    """

    seconds_per_frame = SECONDS_PER_FRAME

    def __init__(self, name: str) -> None:
        """Name an encoder.

        Raises:
            UserError: the encoder is not known.
        """
        super().__init__()
        if name not in ENCODERS:
            raise UserError(
                f"encoder.public = {name!r} is not one of: {', '.join(sorted(ENCODERS))}"
            )
        self.name = name
        self.size = ENCODERS[name].size
        self._cache: ContentCache | None = None
        self._whisper: list[WhisperEncoder] = []  # at most one; in a list it is no submodule

    def load(self, cache: Path | None = None, device: torch.device | None = None) -> None:
        """Load the encoder.

        cache: a folder in which frames are kept on disk. device: that of the samples, by default
        the CPU.

        Raises:
            UserError: the encoder or its engine is not installed, or its weights differ.
        """
        if cache is None and device is not None and self._runs_batches(device):
            self._whisper = [load_whisper(self.name).to(device)]
            self._cache = None
        else:
            self._cache = open_frames(self.name, cache)

    def forward(
        self, samples: Tensor, lengths: Tensor, warps: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `asr.audio.features.Features`.

        Raises:
            ValueError: warps are given; the encoder's own filters are fixed.
        """
        if warps is not None:
            raise ValueError("a frozen encoder takes no vocal tract factors")
        device = samples.device
        counts = [frame_count(length) for length in lengths.tolist()]
        kept = self._cache is not None and self._cache.folder is not None
        if self._runs_batches(device) and not kept:
            features = self._in_a_batch(samples, lengths, counts)
        else:
            features = self._one_by_one(samples, lengths, counts)
        return features, torch.tensor(counts, device=device)

    def _runs_batches(self, device: torch.device) -> bool:
        """Whether the encoder runs on a device in padded batches."""
        return _is_gpu(device) and ENCODERS[self.name].family == "whisper"

    def _in_a_batch(self, samples: Tensor, lengths: Tensor, counts: list[int]) -> Tensor:
        """Return features (B, T, size) of samples (B, S), encoded on their device."""
        if not self._whisper:
            self._whisper = [load_whisper(self.name)]
        whisper = self._whisper[0].to(samples.device)
        features = samples.new_zeros(len(counts), max(counts, default=0), self.size)
        long = [row for row, count in enumerate(counts) if count > LONGEST_PART]
        short = [row for row, count in enumerate(counts) if count <= LONGEST_PART]
        if short:
            frames, _ = whisper(samples[short], lengths[short])
            features[short, : frames.size(1)] = frames
        if long:
            rows = self._one_by_one(samples[long], lengths[long], [counts[row] for row in long])
            features[long, : rows.size(1)] = rows
        return features

    def _one_by_one(self, samples: Tensor, lengths: Tensor, counts: list[int]) -> Tensor:
        """Return features (B, T, size) of samples (B, S), encoded on the CPU or read from disk."""
        if self._cache is None:
            self.load()
        assert self._cache is not None
        features = np.zeros((len(counts), max(counts, default=0), self.size), np.float32)
        rows = zip(samples.cpu().numpy(), lengths.tolist(), counts, strict=True)
        for row, (waveform, length, count) in enumerate(rows):
            features[row, :count] = self._cache(waveform[:length])
        return torch.from_numpy(features).to(samples.device)


def _is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"
