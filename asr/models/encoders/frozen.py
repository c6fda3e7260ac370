"""Features that are the frames of a frozen public encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from asr.audio.cache import ContentCache
from asr.errors import UserError
from asr.models.encoders.public import (
    ENCODERS,
    SECONDS_PER_FRAME,
    frame_count,
    open_frames,
)


class FrozenFeatures(nn.Module):
    """Frames of a public encoder (`asr.models.encoders.public`), an `asr.audio.features.Features`.

    The encoder is loaded on first use. It has no parameters here: its weights are neither trained
    nor saved with the model. Each utterance is encoded on its own, on the CPU.
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

    def load(self, cache: Path | None = None) -> None:
        """Load the encoder; cache: a folder in which frames are kept on disk.

        Raises:
            UserError: the encoder or its engine is not installed, or its weights differ.
        """
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
        if self._cache is None:
            self.load()
        assert self._cache is not None
        counts = [frame_count(length) for length in lengths.tolist()]
        features = np.zeros((len(counts), max(counts, default=0), self.size), np.float32)
        rows = zip(samples.cpu().numpy(), lengths.tolist(), counts, strict=True)
        for row, (waveform, length, count) in enumerate(rows):
            features[row, :count] = self._cache(waveform[:length])
        device = samples.device
        return torch.from_numpy(features).to(device), torch.tensor(counts, device=device)
