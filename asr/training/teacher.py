"""A trained recogniser whose distributions are targets for another (knowledge distillation).

Source: Hinton, Vinyals, Dean 2015; frame by frame with CTC as in Takashima, Li, Kawai 2018; token
by token as in Kim, Rush 2016; attention weights as in Wang et al. 2020, "MiniLM"; similarities of
annotations as in Tung, Mori 2019. Targets and annotations lie at the same times, so no alignment
of the two models is needed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from asr.attention.contract import Annotations
from asr.audio.cache import ContentCache, Samples
from asr.errors import UserError
from asr.model_folder import WEIGHTS, read_folder
from asr.models.encoders.frozen import FrozenFeatures
from asr.models.speech import Waveforms, load_speech_model
from asr.text.vocabulary import Vocabulary

MOST_COMPARED = 2048  # annotations; time and memory grow with its square
SHARPNESS = 20.0  # a cosine of 0.05 more is a factor of e


class DecoderTargets(NamedTuple):
    """What a teacher's decoder gives with teacher forcing.

    log_probs: (B, U+1, V). weights: (B, U+1, T), of the attention; annotations: (B,) of each
    utterance. lengths: (B,) steps whose targets are used.
    """

    log_probs: Tensor
    weights: Tensor
    annotations: Tensor
    lengths: Tensor


class Targets(NamedTuple):
    """CTC log-probabilities of a teacher: values (B, T', V), lengths (B,).

    Without a cache also its decoder's targets, and its encoder's annotations.
    """

    values: Tensor
    lengths: Tensor
    decoder: DecoderTargets | None = None
    annotations: Annotations | None = None

    def to(self, device: torch.device) -> Targets:
        """Move the tensors of the CTC head, all that a cache has, to a device."""
        values = self.values.to(device, non_blocking=True)
        return self._replace(values=values, lengths=self.lengths.to(device, non_blocking=True))


class Lesson(NamedTuple):
    """A batch that a teacher has yet to transcribe; wanted (B,) bool: whose targets are used."""

    waveforms: Waveforms
    wanted: Tensor

    def to(self, device: torch.device) -> Lesson:
        """Move the tensors to a device."""
        wanted = self.wanted.to(device, non_blocking=True)
        return Lesson(self.waveforms.to(device), wanted)


class Teacher:
    """CTC log-probabilities of recordings, and a decoder's targets, by a model in eval mode.

    With a cache: the former of one recording after the other, on the CPU. Without: of batches, on
    any device.
    """

    def __init__(
        self,
        path: Path,
        vocabulary: Vocabulary,
        cache: Path | None = None,
        frames: Path | None = None,
    ) -> None:
        """Load the model.

        path: a model folder, or the name of a model of the package. cache: folder in which the
            distributions of `cached` are kept, by the content of the audio. frames: folder in
            which the frames of its public encoder are.

        Raises:
            UserError: there is no such model, its characters differ from `vocabulary`, it has no
                CTC head, it has a silence mask, or `frames` is given and it has no public encoder.
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
        self.seconds_per_annotation = self._model.seconds_per_annotation
        self.seconds_per_frame = self.seconds_per_annotation / self._model.ctc.subframes
        if frames is not None:
            if not isinstance(self._model.features, FrozenFeatures):
                raise UserError(
                    f"teacher.cache = {str(frames)!r}: {folder.path} has no public encoder whose "
                    "frames could be kept; leave it empty"
                )
            self._model.features.load(frames)
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
    def teach(
        self, lesson: Lesson, previous: Tensor | None = None, steps: Tensor | None = None
    ) -> Targets:
        """Return the targets of a batch, on its device.

        previous: (B, U+1) tokens before each step, beginning with <eos>; steps: (B,) of them.
        Without them there are no targets of the decoder.
        """
        self._model.to(lesson.waveforms.samples.device)
        encoded = self._model.encode(lesson.waveforms)
        assert encoded.ctc_log_probs is not None
        decoder = None
        if previous is not None and steps is not None:
            output = self._model.decoder(previous, encoded.memory)
            log_probs = torch.log_softmax(output.logits, dim=-1)
            lengths = steps * lesson.wanted
            decoder = DecoderTargets(log_probs, output.weights, encoded.lengths, lengths)
        within = inside(encoded.lengths * lesson.wanted, encoded.memory.values.size(1))
        annotations = Annotations(encoded.memory.values, within)
        lengths = encoded.ctc_lengths * lesson.wanted
        return Targets(encoded.ctc_log_probs, lengths, decoder, annotations)

    def _compute(self, samples: Samples) -> NDArray[np.float32]:
        batch = Waveforms(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
        targets = self.teach(Lesson(batch, torch.tensor([True])))
        found: NDArray[np.float32] = targets.values[0, : int(targets.lengths)].numpy()
        return found


def relation_loss(own: Annotations, theirs: Annotations) -> tuple[Tensor, int]:
    """Divergence of the similarities of annotations (B, T, E) from those of a teacher, in nats.

    Each annotation of the batch has a distribution over the others: softmax of the cosines with
    them, without the mean of the batch, times SHARPNESS. The loss is the mean of
    KL(teacher's ‖ own); the vectors of the two may be of different sizes. Of more than
    MOST_COMPARED annotations, some at equal distances are taken. Several processes compare those of
    their own share of a batch. Returns it, and the number of annotations; with one it is 0.
    """
    length = min(own.mask.size(1), theirs.mask.size(1))
    places = (own.mask[:, :length] & theirs.mask[:, :length]).nonzero()
    stride = max(1, -(-len(places) // MOST_COMPARED))
    rows, columns = places[::stride].unbind(1)
    by_model, wanted = (_similarities(each.values[rows, columns]) for each in (own, theirs))
    if len(rows) < 2:
        return by_model.sum() * 0.0, len(rows)
    divergence = functional.kl_div(by_model, wanted, log_target=True, reduction="sum") / len(rows)
    return divergence, len(rows)


def _similarities(vectors: Tensor) -> Tensor:
    """Return the log of the distribution of each of N vectors (N, E) over the others (N, N)."""
    vectors = functional.normalize(vectors.float() - vectors.float().mean(0), dim=-1)
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    least = torch.finfo(torch.float32).min / 2  # e to it is 0, and differences stay finite
    return (SHARPNESS * vectors @ vectors.T).masked_fill(itself, least).log_softmax(-1)


def inside(lengths: Tensor, most: int) -> Tensor:
    """Return (B, most) bool, True within each length (B,)."""
    return torch.arange(most, device=lengths.device) < lengths[:, None]


def alignment_loss(
    weights: Tensor, annotations: Tensor, steps: Tensor, by: DecoderTargets
) -> Tensor:
    """Mean divergence of attention weights (B, U+1, T) from those of a teacher per step, in nats.

    Of an utterance with annotations (B,), the two encoders may differ in the last one: the weights
    of those that both have are normalised. steps: (B,) of each utterance.
    """
    both = torch.minimum(annotations, by.annotations)
    own, theirs = (_log_attention(each, both) for each in (weights, by.weights))
    return distillation_loss(own, steps, theirs, by.lengths)


def _log_attention(weights: Tensor, lengths: Tensor) -> Tensor:
    """Return ln of weights (B, U, T), normalised within lengths (B,), for the longest of them.

    Where they are 0 it is that of the smallest float32.
    """
    weights = weights[:, :, : int(lengths.max())].float()
    mask = inside(lengths, weights.size(2))[:, None]
    within = weights.masked_fill(~mask, 0.0).clamp_min(torch.finfo(weights.dtype).tiny)
    return within.log().log_softmax(-1)


def distillation_loss(
    log_probs: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor
) -> Tensor:
    """Mean divergence KL(targets ‖ log_probs) per frame or step, in nats.

    log_probs: (B, T', V); lengths: (B,) of its frames. targets: (B, T″, V) log-probabilities of
    the same frames; target_lengths: (B,). Frames that only one of the two has are left out.
    """
    frames = min(log_probs.size(1), targets.size(1))
    wanted = targets[:, :frames].float()
    divergence = (wanted.exp() * (wanted - log_probs[:, :frames])).sum(-1)  # (B, frames)
    both = torch.minimum(lengths, target_lengths)
    valid = inside(both, frames)
    return (divergence * valid).sum() / valid.sum().clamp_min(1)
