"""The sizes and options of a model, as its folder and its training config name them.

Each field holds its default, its meaning and its range; see `asr.tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

from asr.errors import UserError
from asr.tables import MOST_LAYERS, Settings, Unread, setting, share, size


@dataclass(frozen=True)
class FeatureSettings(Settings):
    """Log-mel features; see `asr.audio.features`."""

    mels: int = setting(80, "Number of mel filters.", least=4, most=256)
    utterance_mean: bool = setting(
        True, "Subtract each utterance's own mean before the normalisation of the model."
    )


@dataclass(frozen=True)
class AcousticSettings(Settings):
    """The speech encoder: a front end, then bidirectional LSTM layers."""

    kind: str = setting(
        "convolutional",
        "Front end: two convolutions over log-mel features, or the frames of a frozen public "
        "encoder, whose weights are not part of the model folder.",
        choices=("convolutional", "frozen"),
    )
    public: str = setting(
        "whisper-base",
        'The public encoder of kind = "frozen": whisper-base, whisper-tiny.en or moonshine-tiny.',
    )
    channels: int = size(32, "Channels of the two convolutions.")
    state_size: int = size(
        320, "Size of each LSTM in one direction; an annotation has twice this size."
    )
    layers: int = setting(4, "Number of bidirectional layers.", least=0, most=MOST_LAYERS)
    layers_before_reduction: int = setting(
        1,
        "Layers that run at 40 ms a frame. The others run at 80 ms; equal to layers, there is no "
        "reduction and an annotation stands for 40 ms.",
        least=0,
        most=MOST_LAYERS,
    )
    dropout: float = share(0.2, "Dropout rate after each layer.")

    def __post_init__(self) -> None:
        """Refuse a reduction after more layers than there are.

        Raises:
            UserError: the settings.
        """
        super().__post_init__()
        if self.layers_before_reduction > self.layers:
            raise UserError(
                f"layers_before_reduction must be between 0 and layers={self.layers}, "
                f"got {self.layers_before_reduction}"
            )

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        yield Unread(
            "channels" if self.kind == "frozen" else "public", f'with kind = "{self.kind}"'
        )


@dataclass(frozen=True)
class TextualSettings(Settings):
    """The text encoder: embedding, bidirectional recurrent layers, self-attention."""

    embedding_size: int = size(128, "Size of a token's embedding.")
    state_size: int = size(
        128, "Size of each recurrent layer in one direction; an annotation has twice this size."
    )
    layers: int = setting(1, "Number of bidirectional layers.", least=0, most=MOST_LAYERS)
    cell: str = setting("lstm", "Cell of the recurrent layers.", choices=("lstm", "gru"))
    attention_layers: int = setting(
        0, "Self-attention layers after the recurrent ones.", least=0, most=MOST_LAYERS
    )
    heads: int = setting(4, "Heads of each self-attention layer.", least=1, most=256)
    dropout: float = share(0.2, "Dropout rate between and within layers.")
    token_dropout: float = share(0.0, "Share of whole tokens that training sets to zero.")
    embedding_dropout: float | None = share(
        None, "Dropout rate of the embedded tokens. Default: that of dropout."
    )
    annotation_dropout: float | None = share(
        None, "Dropout rate of the annotations. Default: that of dropout."
    )

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.attention_layers:
            yield Unread("heads", "without self-attention (attention_layers = 0)")
        if not self.layers:
            yield Unread("cell", "without recurrent layers (layers = 0)")
        both = None not in (self.embedding_dropout, self.annotation_dropout)
        if both and self.layers < 2 and not self.attention_layers:
            yield Unread(
                "dropout", "in one layer with embedding_dropout and annotation_dropout given"
            )


# Setting → the parameter of a mechanism's constructor that it becomes; the others keep their name,
# and so may `size`.
_PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "size": "attention_size",
        "temperature": "normalizer",
        "top_k": "normalizer",
        "window_back": "window",
        "window_ahead": "window",
        "window_soft": "window",
        "window_centre": "window",
        "window_stride": "window",
    }
)
_BUILD_READS: Final = frozenset({"kind", "heads", "key_value_heads", "silence_mask"})


@dataclass(frozen=True)
class AttentionSettings(Settings):
    """The attention mechanism, its normalisation and its window (location mask)."""

    RETIRED: ClassVar[Mapping[str, object]] = MappingProxyType({"silence_mask": False})

    kind: str = setting(
        "additive",
        "Mechanism: additive (Bahdanau), concat, coverage, dot, general, linear, local, relu, "
        "scaled_dot, or fixed (no attention: one context for all steps).",
    )
    size: int = size(128, "Size A of keys and projected queries; several heads divide it.")
    heads: int = setting(1, "Number of attention heads.", least=1, most=256)
    key_value_heads: int = setting(
        0,
        "Heads of keys and values, each shared by heads / key_value_heads query heads "
        "(grouped-query attention; 1 is multi-query). 0: as many as heads.",
        least=0,
        most=256,
    )
    location_features: int = setting(
        0,
        "Convolution channels over the previous and the summed weights, added to the energies "
        "(Chorowski et al. 2015). 0: none.",
        least=0,
        most=1024,
    )
    location_width: int = setting(
        15, "Width of that convolution in annotations; odd.", least=1, most=1023
    )
    triton: bool = setting(
        False,
        "Compute additive attention with a softmax by a Triton kernel on CUDA devices, which then "
        "replaces the fused decoder loop and its CUDA graphs. Never timed on a GPU. Other devices "
        "compute the same without it.",
    )
    local_reach: int = setting(
        10,
        "D of local attention: annotations on each side of the predicted position.",
        least=1,
        most=100_000,
    )
    summary: str = setting("last", 'The context of kind = "fixed".', choices=("last", "mean"))
    normalizer: str = setting(
        "softmax",
        "Function from energies to weights. smoothed: normalised sigmoids. top_k: softmax over the "
        "top_k highest energies. hard: all weight on one annotation.",
    )
    temperature: float = setting(
        1.0,
        "Divisor of the energies. Below 1 sharpens the weights, above 1 flattens.",
        above=0,
        most=1000.0,
    )
    top_k: int = setting(0, 'Annotations kept by normalizer = "top_k". 0: 8.', most=100_000)
    window_back: int = setting(
        0,
        "Location mask: attention is restricted to a window around the centre of the previous "
        "step's weights. Annotations before the centre. 0 in both: no window.",
        least=0,
        most=100_000,
    )
    window_ahead: int = setting(
        0, "Annotations after the centre of the window.", least=0, most=100_000
    )
    window_soft: bool = setting(
        False,
        "Lower the energies by the squared distance from the centre instead of forbidding "
        "everything outside the window.",
    )
    window_centre: str = setting(
        "median", "Centre of the previous step's weights.", choices=("expectation", "median")
    )
    window_stride: int = setting(
        0,
        "One annotation in so many stays allowed outside the window. 0: none.",
        least=0,
        most=100_000,
    )

    def __post_init__(self) -> None:
        """Refuse values out of range, and options whose condition is not met.

        Raises:
            UserError: the value, or the two options.
        """
        super().__post_init__()
        if self.top_k and self.normalizer != "top_k":
            raise UserError(
                f'top_k = {self.top_k} needs normalizer = "top_k", got "{self.normalizer}"'
            )
        if self.window_stride and not self.has_window:
            raise UserError(
                f"window_stride = {self.window_stride} needs a window: "
                "set window_back and window_ahead"
            )

    @property
    def has_window(self) -> bool:
        """Whether attention is restricted to a window."""
        return bool(self.window_back or self.window_ahead)

    def unread(self) -> Iterator[Unread]:
        """Yield what the mechanism's constructor does not take, and options of unset options.

        Raises:
            UserError: no mechanism of that kind.
        """
        from asr.attention.build import parameters_of  # torch, which a default config does without

        try:
            taken = parameters_of(self.kind, self.heads)
        except ValueError as error:
            raise UserError(str(error)) from error
        for name in self.__dataclass_fields__:
            if name not in _BUILD_READS and not {name, _PARAMETERS.get(name, name)} & taken:
                yield Unread(name, f'with kind = "{self.kind}"')
        if self.heads == 1:
            yield Unread("key_value_heads", "with one head (heads = 1)")
        if not self.location_features:
            yield Unread("location_width", "without location features (location_features = 0)")
        if self.normalizer != "softmax":
            yield Unread("triton", f'with normalizer = "{self.normalizer}"')
        if not self.has_window:
            for name in ("window_soft", "window_centre"):
                yield Unread(name, "without a window (window_back = window_ahead = 0)")


@dataclass(frozen=True)
class SpeechAttentionSettings(AttentionSettings):
    """The attention of a recogniser."""

    RETIRED: ClassVar[Mapping[str, object]] = MappingProxyType({})

    silence_mask: bool = setting(
        False, "Forbid attention to annotations without speech, by the energy of the audio."
    )


@dataclass(frozen=True)
class DecoderSettings(Settings):
    """The recurrent decoder; see `asr.models.decoder.Decoder`."""

    embedding_size: int = size(64, "Size of a token's embedding.")
    state_size: int = size(320, "Size of the state.")
    readout_size: int = size(256, "Size of the readout, the layer before the output layer.")
    cell: str = setting("gru", "Recurrent cell.", choices=("gru", "lstm", "tanh"))
    layers: int = setting(1, "Number of recurrent layers.", least=1, most=MOST_LAYERS)
    attend: str = setting(
        "before",
        "Place of the attention: before the cell (Bahdanau et al. 2015), between two cells "
        "(conditional GRU), or after the cell (Luong et al. 2015).",
        choices=("before", "between", "after"),
    )
    input_feeding: bool = setting(False, "Feed the previous readout to the first cell.")
    initial: str = setting(
        "last_backward",
        "Initial state: from the backward half of the first annotation, from the mean of the "
        "annotations, or zero.",
        choices=("last_backward", "mean", "zero"),
    )
    token_to_cell: bool = setting(True, "Feed the previous token to the cell.")
    readout: str = setting("maxout", "Activation of the readout.", choices=("maxout", "tanh"))
    readout_token: bool = setting(True, "Feed the previous token to the readout.")
    readout_context: bool = setting(True, "Feed the context to the readout.")
    tied: bool = setting(
        False,
        "Use the embedding matrix as the output layer's; needs readout_size = embedding_size.",
    )
    layer_norm: bool = setting(False, "Layer normalisation of the gates' inputs.")
    dropout: float = share(0.1, "Dropout rate between layers.")
    token_dropout: float = share(0.0, "Share of whole tokens that training sets to zero.")
    embedding_dropout: float | None = share(
        None, "Dropout rate of the embedded tokens. Default: that of dropout."
    )
    readout_dropout: float | None = share(
        None, "Dropout rate of the readout. Default: that of dropout."
    )

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if self.layers < 2 and None not in (self.embedding_dropout, self.readout_dropout):
            yield Unread("dropout", "in one layer with embedding_dropout and readout_dropout given")
        if not (self.token_to_cell or self.readout_token):
            why = "where no part reads the previous token (token_to_cell, readout_token)"
            yield Unread("token_dropout", why)
            yield Unread("embedding_dropout", why)
            if not self.tied:
                yield Unread("embedding_size", why)


@dataclass(frozen=True)
class CTCSettings(Settings):
    """The CTC head on the annotations; see `asr.models.ctc.CTCHead`."""

    subframes: int = setting(2, "CTC frames for each annotation. 0: no CTC head.", least=0, most=16)


@dataclass(frozen=True)
class SpeechSettings(Settings):
    """A speech recogniser."""

    features: FeatureSettings = field(default_factory=FeatureSettings)
    encoder: AcousticSettings = field(default_factory=AcousticSettings)
    attention: SpeechAttentionSettings = field(default_factory=SpeechAttentionSettings)
    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    ctc: CTCSettings = field(default_factory=CTCSettings)

    def __post_init__(self) -> None:
        """Refuse log-mel settings of a model without log-mel features.

        Raises:
            UserError: the settings.
        """
        super().__post_init__()
        if self.encoder.kind == "frozen" and self.features != FeatureSettings():
            raise UserError(
                'features.* is not read with encoder.kind = "frozen"; the nearest key that is '
                "read: encoder.public"
            )


@dataclass(frozen=True)
class TranslationSettings(Settings):
    """A translation model."""

    encoder: TextualSettings = field(default_factory=TextualSettings)
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    joint_embedding: bool = setting(
        False,
        "One embedding for encoder and decoder; needs a joint vocabulary. With decoder.tied it is "
        "the output layer's matrix, too.",
    )


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """A recurrent language model of words; see `asr.models.language.RecurrentLanguageModel`."""

    embedding_size: int = size(128, "Size of a word's embedding.")
    state_size: int = size(640, "Size of the LSTM.")
    vector_size: int = size(256, "Size of the vector before the softmax.")
    cutoffs: tuple[int, ...] = setting(
        (2000, 8000),
        "Bounds of the adaptive softmax, in ranks of words by frequency; ascending.",
        least=1,
        most=10_000_000,
    )
    dropout: float = share(0.1, "Dropout rate around the LSTM.")


@dataclass(frozen=True)
class PunctuationSettings(Settings):
    """A model of punctuation and case; see `asr.models.punctuation.PunctuationModel`."""

    buckets: int = setting(32_768, "Rows of the hashed embedding table.", least=2, most=10_000_000)
    embedding_size: int = size(32, "Size of a row.")
    state_size: int = size(96, "Size of each LSTM in one direction.")
    layers: int = setting(2, "Number of bidirectional LSTM layers.", least=1, most=MOST_LAYERS)
    dropout: float = share(0.1, "Dropout rate before each layer.")
