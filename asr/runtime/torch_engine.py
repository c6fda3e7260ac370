"""Inference with torch, on the CPU or a GPU; supports every model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.attention.contract import Memory
from asr.models.build import build_window
from asr.models.settings import AttentionSettings
from asr.models.speech import SpeechModel, Waveforms
from asr.models.translation import TranslationModel
from asr.runtime.engine import EncodedAudio, EncodedTexts, PaddedAudio
from asr.runtime.teacher_forcing import teacher_forced_weights
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.trees import change


class TorchEngine:
    """An `asr.runtime.engine.Engine` around a model in eval mode, on the device of its weights."""

    def __init__(self, model: SpeechModel) -> None:
        self.model = model

    @property
    def seconds_per_annotation(self) -> float:
        """See `Engine.seconds_per_annotation`."""
        return self.model.seconds_per_annotation

    @property
    def has_ctc(self) -> bool:
        """See `Engine.has_ctc`."""
        return self.model.ctc is not None

    @torch.inference_mode()
    def encode(self, audio: PaddedAudio) -> EncodedAudio:
        """See `Engine.encode`."""
        waveforms = Waveforms(*map(torch.from_numpy, audio))
        encoded = self.model.encode(waveforms.to(next(self.model.parameters()).device))
        features, frames = encoded.features.cpu().numpy(), encoded.frames.tolist()
        return EncodedAudio(
            memory=encoded.memory,
            lengths=encoded.lengths.cpu().numpy(),
            ctc=None if encoded.ctc_log_probs is None else encoded.ctc_log_probs.cpu().numpy(),
            ctc_lengths=encoded.ctc_lengths.cpu().numpy(),
            features=[each[:count] for each, count in zip(features, frames, strict=True)],
        )

    @torch.inference_mode()
    def put(self, memory: Memory, rows: NDArray[np.int64], other: Memory) -> Memory:
        """See `Engine.put`."""
        index = torch.from_numpy(rows).to(memory.mask.device)
        return change(lambda one, two: _put(one, index, two), memory, other)

    def decoder(self, memory: Memory) -> TorchDecoder:
        """See `Engine.decoder`."""
        return TorchDecoder(self.model.decoder, memory)

    @torch.inference_mode()
    def decoder_without_audio(self, memory: Memory) -> TorchDecoder:
        """See `Engine.decoder_without_audio`."""
        return self.decoder(self.model.decoder.without_audio(memory))

    @torch.inference_mode()
    def force(
        self, memory: Memory, tokens: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `Engine.force`."""
        found = teacher_forced_weights(self.model.decoder, memory, tokens)
        weights, log_probabilities = (each.float().cpu().numpy() for each in found)
        return weights, log_probabilities

    def windowed(self, attention: AttentionSettings) -> TorchEngine:
        """See `Engine.windowed`."""
        return TorchEngine(self.model.windowed(build_window(attention)))


def _put(one: Tensor, rows: Tensor, two: Tensor) -> Tensor:
    """Do what `asr.search.trees.put` does, with tensors."""
    joined = one.new_zeros(len(one), max(one.size(1), two.size(1)), *one.shape[2:])
    joined[:, : one.size(1)] = one
    joined[rows] = 0
    joined[rows, : two.size(1)] = two
    return joined


class TorchTextEngine:
    """An `asr.runtime.engine.TextEngine` around a model in eval mode, on its device."""

    def __init__(self, model: TranslationModel) -> None:
        self.model = model

    @torch.inference_mode()
    def encode(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> EncodedTexts:
        """See `TextEngine.encode`."""
        device = next(self.model.parameters()).device
        encoded = self.model.encode(
            *(torch.from_numpy(each).to(device) for each in (tokens, lengths))
        )
        return EncodedTexts(encoded.memory, encoded.lengths.cpu().numpy())

    def decoder(self, memory: Memory) -> TorchDecoder:
        """See `TextEngine.decoder`."""
        return TorchDecoder(self.model.decoder, memory)
