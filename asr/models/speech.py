"""The speech model: features and their normalisation, acoustic encoder, CTC head, decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from asr.attention.build import with_window
from asr.attention.contract import Annotations, Memory
from asr.attention.masks import Window, pool_mask, restrict
from asr.audio.features import Features, LogMel, Normalizer
from asr.audio.mel import SECONDS_PER_FRAME
from asr.errors import UserError
from asr.model_folder import ModelFolder
from asr.models.build import build_decoder
from asr.models.ctc import CTCHead
from asr.models.decoder import Decoder
from asr.models.encoders.acoustic import (
    AcousticEncoder,
    ConvolutionFrontEnd,
    FrameFrontEnd,
    FrontEnd,
)
from asr.models.encoders.frozen import FrozenFeatures
from asr.models.folder import build_with_weights
from asr.models.settings import SpeechSettings
from asr.tables import from_table

FeatureChange = Callable[[Tensor, Tensor], Tensor]  # features (B, F, size), frames (B,) → features


class Waveforms(NamedTuple):
    """A padded batch of recordings at 16 kHz.

    samples: (B, S), 0 beyond each length. lengths: (B,) samples. speech: (B, F) bool, the 10 ms
    frames with speech; read by a model with a silence mask only. warps: (B,) vocal tract factors
    (see `mel_filters`), on the CPU; None changes nothing.
    """

    samples: Tensor
    lengths: Tensor
    speech: Tensor | None = None
    warps: Tensor | None = None

    def to(self, device: torch.device) -> Waveforms:
        """Move all tensors but warps to a device."""
        return self._replace(
            samples=self.samples.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            speech=None if self.speech is None else self.speech.to(device, non_blocking=True),
        )


class Encoded(NamedTuple):
    """A batch of encoded recordings.

    memory: what the decoder attends to, without silence if the model has a silence mask.
    lengths: (B,) annotations. ctc_log_probs: (B, T', V) or None; ctc_lengths: (B,) of its frames.
    features: (B, F, size), normalised. frames: (B,) of them.
    """

    memory: Memory
    lengths: Tensor
    ctc_log_probs: Tensor | None
    ctc_lengths: Tensor
    features: Tensor
    frames: Tensor


class SpeechModel(nn.Module):
    """Samples in, characters out.

    `encode` is the only way from samples to annotations: training, validation, decoding and
    alignment call it. The statistics of the normalisation are buffers, saved with the weights.
    """

    def __init__(
        self,
        features: Features,
        normalizer: Normalizer,
        encoder: AcousticEncoder,
        ctc: CTCHead | None,
        decoder: Decoder,
        silence_mask: bool = False,
    ) -> None:
        """Join the parts; silence_mask: forbid attention to annotations without speech."""
        super().__init__()
        self.features = features
        self.normalizer = normalizer
        self.encoder = encoder
        self.ctc = ctc
        self.decoder = decoder
        self.silence_mask = silence_mask

    @property
    def seconds_per_annotation(self) -> float:
        """Seconds of audio for each annotation."""
        return self.encoder.reduction * self.features.seconds_per_frame

    @property
    def frames_per_annotation(self) -> int:
        """Frames of 10 ms, as in a speech mask, for each annotation."""
        return round(self.seconds_per_annotation / SECONDS_PER_FRAME)

    def encode(self, waveforms: Waveforms, change: FeatureChange | None = None) -> Encoded:
        """Encode a batch; an utterance's result does not depend on the others.

        change: applied to the normalised features, in training (SpecAugment).

        Raises:
            ValueError: the model has a silence mask and the batch no `speech`.
        """
        features, frames = self.features(waveforms.samples, waveforms.lengths, waveforms.warps)
        features = self.normalizer(features, frames)
        changed = features if change is None else change(features, frames)
        annotations = self.encoder(changed, frames)
        lengths = annotations.mask.sum(1)
        return Encoded(
            memory=self.decoder.prepare(self._allowed(annotations, waveforms.speech)),
            lengths=lengths,
            ctc_log_probs=None if self.ctc is None else self.ctc(annotations),
            ctc_lengths=lengths * (0 if self.ctc is None else self.ctc.subframes),
            features=features,
            frames=frames,
        )

    def _allowed(self, annotations: Annotations, speech: Tensor | None) -> Annotations:
        """Return the annotations that the decoder may attend to."""
        if not self.silence_mask:
            return annotations
        if speech is None:
            raise ValueError("a model with a silence mask needs waveforms with `speech`")
        pooled = pool_mask(speech, self.frames_per_annotation)
        missing = annotations.mask.size(1) - pooled.size(1)  # frames without a whole window
        return restrict(annotations, functional.pad(pooled, (0, missing)))

    def windowed(self, window: Window | None) -> SpeechModel:
        """Return a model with the same parameters whose attention is restricted to a window.

        Raises:
            ValueError: the attention takes no window.
        """
        decoder = copy.copy(self.decoder)  # the modules inside are shared
        decoder.__dict__["_modules"] = dict(self.decoder._modules)
        decoder.attention = with_window(self.decoder.attention, window)
        twin = SpeechModel(
            self.features, self.normalizer, self.encoder, self.ctc, decoder, self.silence_mask
        )
        return twin.train(self.training)


def build_speech_model(settings: SpeechSettings, vocabulary_size: int) -> SpeechModel:
    """Make an untrained recogniser of the given sizes.

    Raises:
        UserError: an unknown public encoder, or settings that do not fit together.
        ValueError: an impossible number of layers.
    """
    features, normalizer, front = _front_end(settings)
    encoder = AcousticEncoder(
        front,
        state_size=settings.encoder.state_size,
        layers=settings.encoder.layers,
        layers_before_reduction=settings.encoder.layers_before_reduction,
        dropout=settings.encoder.dropout,
    )
    ctc = None
    if settings.ctc.subframes:
        ctc = CTCHead(encoder.size, vocabulary_size, settings.ctc.subframes)
    decoder = build_decoder(settings.attention, settings.decoder, encoder.size, vocabulary_size)
    return SpeechModel(features, normalizer, encoder, ctc, decoder, settings.attention.silence_mask)


def load_speech_model(folder: ModelFolder, vocabulary_size: int) -> SpeechModel:
    """Load the model of a folder, in float32 and eval mode, its parameters fixed.

    Raises:
        UserError: the weights are missing, damaged or of other sizes, or the settings impossible.
    """
    settings = from_table(SpeechSettings, folder.model, f"{folder.path}: model")

    def build() -> SpeechModel:
        try:
            return build_speech_model(settings, vocabulary_size)
        except (ValueError, RuntimeError) as error:
            raise UserError(f"{folder.path}: no model can have these sizes: {error}") from error

    return build_with_weights(build, folder.path).eval().requires_grad_(False)


def _front_end(settings: SpeechSettings) -> tuple[Features, Normalizer, FrontEnd]:
    """Make the features of a kind of encoder, their normalisation and the first layers."""
    if settings.encoder.kind == "frozen":
        frozen = FrozenFeatures(settings.encoder.public)
        return frozen, Normalizer(frozen.size, False), FrameFrontEnd(frozen.size)
    features = LogMel(mels=settings.features.mels)
    normalizer = Normalizer(features.size, settings.features.utterance_mean)
    return features, normalizer, ConvolutionFrontEnd(features.size, settings.encoder.channels)
