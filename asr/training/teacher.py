"""A trained recogniser whose CTC distributions are targets for another (knowledge distillation).

Source: Hinton, Vinyals, Dean 2015; frame by frame with CTC as in Takashima, Li, Kawai 2018. Targets
and annotations lie at the same times, so no alignment of the two models is needed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.audio.cache import ContentCache, Samples
from asr.errors import UserError
from asr.model_folder import WEIGHTS, read_folder
from asr.models.speech import Waveforms, load_speech_model
from asr.text.vocabulary import Vocabulary


class Targets(NamedTuple):
    """CTC log-probabilities of a teacher: values (B, T', V), lengths (B,)."""

    values: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> Targets:
        """Move the tensors to a device."""
        return Targets(*(each.to(device, non_blocking=True) for each in self))


class Lesson(NamedTuple):
    """A batch that a teacher has yet to transcribe; wanted (B,) bool: whose targets are used."""

    waveforms: Waveforms
    wanted: Tensor

    def to(self, device: torch.device) -> Lesson:
        """Move the tensors to a device."""
        wanted = self.wanted.to(device, non_blocking=True)
        return Lesson(self.waveforms.to(device), wanted)


class Teacher:
    """CTC log-probabilities of recordings, by a model in eval mode.

    With a cache: of one recording after the other, on the CPU. Without: of batches, on any device.
    """

    def __init__(self, path: Path, vocabulary: Vocabulary, cache: Path | None = None) -> None:
        """Load the model.

        path: a model folder, or the name of a model of the package. cache: folder in which the
            distributions of `cached` are kept, by the content of the audio.

        Raises:
            UserError: there is no such model, its characters differ from `vocabulary`, it has no
                CTC head, or it has a silence mask.
        """
        folder = read_folder(path, "speech")
        if folder.vocabularies.get("vocabulary") != vocabulary.to_json():
            raise UserError(f"{folder.path}: its characters differ from those of this recipe")
        self._model = load_speech_model(folder, len(vocabulary))
        if self._model.ctc is None or self._model.silence_mask:
            raise UserError(
                f"{folder.path}: a teacher needs a CTC head (ctc.subframes above 0) and no silence "
                "mask"
            )
        self.seconds_per_frame = self._model.seconds_per_annotation / self._model.ctc.subframes
        self._cache: ContentCache | None = None
        if cache is not None:
            digest = hashlib.sha256((folder.path / WEIGHTS).read_bytes()).hexdigest()[:12]
            self._cache = ContentCache(cache / f"ctc-{digest}", self._compute, len(vocabulary))

    @property
    def has_cache(self) -> bool:
        """Whether targets are kept on disk: then `cached` gives them, else `teach`."""
        return self._cache is not None

    def cached(self, samples: Samples) -> NDArray[np.float32]:
        """Return the log-probabilities (T', V) of samples (S,) at 16 kHz, float32."""
        assert self._cache is not None
        return self._cache(samples)

    @torch.no_grad()
    def teach(self, lesson: Lesson) -> Targets:
        """Return the targets of a batch, on its device."""
        self._model.to(lesson.waveforms.samples.device)
        encoded = self._model.encode(lesson.waveforms)
        assert encoded.ctc_log_probs is not None
        return Targets(encoded.ctc_log_probs, encoded.ctc_lengths * lesson.wanted)

    def _compute(self, samples: Samples) -> NDArray[np.float32]:
        batch = Waveforms(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
        values, lengths = self.teach(Lesson(batch, torch.tensor([True])))
        found: NDArray[np.float32] = values[0, : int(lengths)].numpy()
        return found


def distillation_loss(
    log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor
) -> Tensor:
    """Mean divergence KL(targets ‖ log_probs) per frame, in nats.

    log_probs: (B, T', V); lengths: (B,) of its frames. targets: (B, T″, V) log-probabilities of
    the same frames; target_lengths: (B,). Frames that only one of the two has are left out.
    """
    frames = min(log_probs.size(1), targets.size(1))
    wanted = targets[:, :frames].float()
    divergence = (wanted.exp() * (wanted - log_probs[:, :frames])).sum(-1)  # (B, frames)
    both = torch.minimum(lengths, target_lengths)
    valid = torch.arange(frames, device=lengths.device) < both[:, None]
    return (divergence * valid).sum() / valid.sum().clamp_min(1)
