"""The sizes of a model, as its folder and its training config name them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FeatureSettings:
    """Log-mel features; see `asr.audio.features`."""

    mels: int = 80
    utterance_mean: bool = True  # take each utterance's own mean off before the model's statistics


@dataclass(frozen=True)
class AcousticSettings:
    """See `asr.models.acoustic.AcousticEncoder`."""

    channels: int = 32
    state_size: int = 320
    layers: int = 4
    layers_before_reduction: int = 1
    dropout: float = 0.2


@dataclass(frozen=True)
class TextualSettings:
    """See `asr.models.textual.TextualEncoder`."""

    embedding_size: int = 128
    state_size: int = 128
    layers: int = 1
    dropout: float = 0.2


@dataclass(frozen=True)
class AttentionSettings:
    """A mechanism of `asr.attention.contract.KINDS` and its masks.

    window_back, window_ahead: reach of the window in annotations; 0 leaves it out.
    silence_mask: keep attention off silent annotations too, by the energy of the audio.
    """

    kind: str = "additive"
    size: int = 128
    location_features: int = 0
    location_width: int = 15
    normalizer: str = "softmax"
    window_back: int = 0
    window_ahead: int = 0
    window_soft: bool = False
    window_centre: str = "median"
    silence_mask: bool = False


@dataclass(frozen=True)
class DecoderSettings:
    """See `asr.models.decoder.Decoder`."""

    embedding_size: int = 64
    state_size: int = 320
    readout_size: int = 256
    dropout: float = 0.1


@dataclass(frozen=True)
class CTCSettings:
    """See `asr.models.ctc.CTCHead`; subframes = 0 leaves the head out."""

    subframes: int = 2


@dataclass(frozen=True)
class SpeechSettings:
    """A speech recogniser."""

    features: FeatureSettings = field(default_factory=FeatureSettings)
    encoder: AcousticSettings = field(default_factory=AcousticSettings)
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    ctc: CTCSettings = field(default_factory=CTCSettings)


@dataclass(frozen=True)
class TranslationSettings:
    """A translator."""

    encoder: TextualSettings = field(default_factory=TextualSettings)
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    decoder: DecoderSettings = field(default_factory=DecoderSettings)
