"""Encoder + attention + decoder (+ CTC): the whole, built from its settings."""

from __future__ import annotations

import copy

from torch import nn

from asr.attention.build import build_attention, with_window
from asr.attention.contract import Attention
from asr.attention.masks import Window
from asr.attention.normalizers import build_normalizer
from asr.errors import UserError
from asr.models.ctc import CTCHead
from asr.models.decoder import Decoder
from asr.models.encoders.acoustic import AcousticEncoder
from asr.models.encoders.textual import TextualEncoder
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    SpeechSettings,
    TranslationSettings,
)
from asr.tables import to_table


class SpeechModel(nn.Module):
    """Features in, characters out: acoustic encoder, CTC head or None, decoder."""

    def __init__(self, encoder: AcousticEncoder, ctc: CTCHead | None, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.ctc = ctc
        self.decoder = decoder

    def windowed(self, window: Window | None) -> SpeechModel:
        """Return a model with the same parameters whose attention is restricted to a window.

        Raises:
            ValueError: the attention takes no window.
        """
        decoder = copy.copy(self.decoder)  # the modules inside are shared
        decoder.__dict__["_modules"] = dict(self.decoder._modules)
        decoder.attention = with_window(self.decoder.attention, window)
        twin = SpeechModel(self.encoder, self.ctc, decoder)
        return twin.train(self.training)


class TranslationModel(nn.Module):
    """Tokens in, tokens out: textual encoder and decoder."""

    def __init__(self, encoder: TextualEncoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder


def build_speech_model(settings: SpeechSettings, vocabulary_size: int) -> SpeechModel:
    """Make an untrained recogniser of the given sizes."""
    encoder = AcousticEncoder(settings.features.mels, **to_table(settings.encoder))
    ctc = None
    if settings.ctc.subframes:
        ctc = CTCHead(encoder.size, vocabulary_size, settings.ctc.subframes)
    decoder = _build_decoder(settings.attention, settings.decoder, encoder.size, vocabulary_size)
    return SpeechModel(encoder, ctc, decoder)


def build_translation_model(
    settings: TranslationSettings, source_size: int, target_size: int
) -> TranslationModel:
    """Make an untrained translator; the sizes are those of the two vocabularies.

    Raises:
        UserError: settings that do not go together, or with these vocabularies.
    """
    if settings.encoder.layers == 0 and settings.decoder.initial == "last_backward":
        raise UserError(
            'decoder.initial = "last_backward" wants an encoder that reads backwards, and '
            'encoder.layers is 0; take "mean" or "zero"'
        )
    encoder = TextualEncoder(source_size, **to_table(settings.encoder))
    decoder = _build_decoder(settings.attention, settings.decoder, encoder.size, target_size)
    if settings.joint_embedding:
        encoder.borrow_embedding(decoder.embedding)
    return TranslationModel(encoder, decoder)


def _build_decoder(
    attention: AttentionSettings, decoder: DecoderSettings, annotation_size: int, outputs: int
) -> Decoder:
    core = _build_attention(attention, decoder.state_size, annotation_size)
    return Decoder(core, outputs, annotation_size, decoder)


def build_window(settings: AttentionSettings) -> Window | None:
    """Make the window of the settings, None where they have none.

    Raises:
        ValueError: it reaches one way alone.
    """
    if not settings.has_window:
        return None
    return Window(
        back=settings.window_back,
        ahead=settings.window_ahead,
        soft=settings.window_soft,
        centre=settings.window_centre,
        stride=settings.window_stride,
    )


def _build_attention(
    settings: AttentionSettings, query_size: int, annotation_size: int
) -> Attention:
    """Make the mechanism, with those of the settings that its constructor has.

    Raises:
        UserError: settings that make no sense, by themselves or together.
    """
    try:
        return build_attention(
            settings.kind,
            query_size,
            annotation_size,
            attention_size=settings.size,
            heads=settings.heads,
            key_value_heads=settings.key_value_heads or None,
            options={
                "location_features": settings.location_features,
                "location_width": settings.location_width,
                "local_reach": settings.local_reach,
                "summary": settings.summary,
                "normalizer": build_normalizer(
                    settings.normalizer, settings.temperature, settings.top_k
                ),
                "window": build_window(settings),
            },
        )
    except ValueError as error:
        raise UserError(f"model.attention: {error}") from error
