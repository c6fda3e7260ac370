"""Decoder, attention and window from their settings."""

from __future__ import annotations

from asr.attention.build import build_attention
from asr.attention.contract import Attention
from asr.attention.masks import Window
from asr.attention.normalizers import build_normalizer
from asr.errors import UserError
from asr.models.decoder import Decoder
from asr.models.settings import AttentionSettings, DecoderSettings


def build_decoder(
    attention: AttentionSettings, decoder: DecoderSettings, annotation_size: int, outputs: int
) -> Decoder:
    """Make an untrained decoder.

    annotation_size: of the encoder. outputs: size of the target vocabulary.

    Raises:
        UserError: settings that are invalid, alone or together.
    """
    core = _build_attention(attention, decoder.state_size, annotation_size)
    return Decoder(core, outputs, annotation_size, decoder)


def build_window(settings: AttentionSettings) -> Window | None:
    """Make the attention window of the settings; None if they have none.

    Raises:
        ValueError: it extends to one side only.
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
    """Make the mechanism from the settings that its constructor takes.

    Raises:
        UserError: settings that are invalid, alone or together.
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
                **vars(settings),
                "normalizer": build_normalizer(
                    settings.normalizer, settings.temperature, settings.top_k
                ),
                "window": build_window(settings),
            },
        )
    except ValueError as error:
        raise UserError(f"model.attention: {error}") from error
