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
    """See `asr.models.encoders.acoustic.AcousticEncoder`."""

    channels: int = 32
    state_size: int = 320
    layers: int = 4
    layers_before_reduction: int = 1
    dropout: float = 0.2


@dataclass(frozen=True)
class TextualSettings:
    """See `asr.models.encoders.textual.TextualEncoder`; a dropout rate left out is `dropout`."""

    embedding_size: int = 128
    state_size: int = 128
    layers: int = 1
    cell: str = "lstm"  # or "gru"
    attention_layers: int = 0  # of self-attention, after the recurrent ones
    heads: int = 4  # of self-attention
    dropout: float = 0.2
    token_dropout: float = 0.0
    embedding_dropout: float | None = None
    annotation_dropout: float | None = None


@dataclass(frozen=True)
class AttentionSettings:
    """A mechanism of `asr.attention.contract.KINDS` and its masks.

    heads: more than 1 divide `size` among them; see `asr.attention.multihead`.
    key_value_heads: how many keys and values they have, shared evenly; 0 gives each its own.
    location_features, location_width: of additive attention; see `asr.attention.additive`.
    local_reach: of local attention. summary: of the fixed context, "last" or "mean".
    normalizer: a name in `asr.attention.normalizers.NORMALIZERS`.
    temperature: what the energies are divided by before; below 1 sharpens.
    top_k: how many places the normalizer "top_k" keeps; 0 is its own default.
    window_back, window_ahead: reach of the window in annotations; 0 leaves it out.
    window_stride: every so many annotations one stays in sight outside the window; 0: none.
    silence_mask: keep attention off silent annotations too, by the energy of the audio.
    """

    kind: str = "additive"
    size: int = 128
    heads: int = 1
    key_value_heads: int = 0
    location_features: int = 0
    location_width: int = 15
    local_reach: int = 10
    summary: str = "last"
    normalizer: str = "softmax"
    temperature: float = 1.0
    top_k: int = 0
    window_back: int = 0
    window_ahead: int = 0
    window_soft: bool = False
    window_centre: str = "median"
    window_stride: int = 0
    silence_mask: bool = False

    def __post_init__(self) -> None:
        """Refuse what one setting says and another does not let be heard.

        Raises:
            ValueError: of the two.
        """
        if self.top_k and self.normalizer != "top_k":
            raise ValueError(
                f'top_k = {self.top_k} needs normalizer = "top_k", got "{self.normalizer}"'
            )
        if self.window_stride and not (self.window_back or self.window_ahead):
            raise ValueError(
                f"window_stride = {self.window_stride} needs a window: "
                "set window_back and window_ahead"
            )


@dataclass(frozen=True)
class DecoderSettings:
    """See `asr.models.decoder.Decoder`; rates of dropout left out are as `dropout`."""

    embedding_size: int = 64
    state_size: int = 320
    readout_size: int = 256
    cell: str = "gru"  # or "lstm"
    layers: int = 1
    attend: str = "before"  # the cell, "between" two (conditional), or "after" it
    input_feeding: bool = False  # the last readout goes into the cell
    initial: str = "last_backward"  # first state; or "mean" of the annotations, or "zero"
    token_to_cell: bool = True
    readout: str = "maxout"  # or "tanh"
    readout_token: bool = True
    readout_context: bool = True
    tied: bool = False  # the output layer's matrix is the embedding's
    layer_norm: bool = False
    dropout: float = 0.1
    token_dropout: float = 0.0
    embedding_dropout: float | None = None
    readout_dropout: float | None = None


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
    """A translator.

    joint_embedding: encoder and decoder share one, which wants a joint vocabulary; with
        decoder.tied it is the output layer's too.
    """

    encoder: TextualSettings = field(default_factory=TextualSettings)
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    joint_embedding: bool = False


@dataclass(frozen=True)
class LanguageSettings:
    """See `asr.models.language.RecurrentLanguageModel`."""

    embedding_size: int = 128
    state_size: int = 640
    vector_size: int = 256
    cutoffs: tuple[int, ...] = (2000, 8000)
    dropout: float = 0.1
