"""The translation model: textual encoder, attention and decoder."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from asr.attention.contract import Memory
from asr.errors import UserError
from asr.model_folder import ModelFolder
from asr.models.build import build_decoder
from asr.models.decoder import Decoder
from asr.models.encoders.textual import TextualEncoder
from asr.models.folder import build_with_weights
from asr.models.settings import TranslationSettings
from asr.tables import to_table


class EncodedText(NamedTuple):
    """A batch of encoded sentences.

    memory: what the decoder attends to. lengths: annotations (B,) of each sentence.
    """

    memory: Memory
    lengths: Tensor


class TranslationModel(nn.Module):
    """Tokens in, tokens out: textual encoder and decoder."""

    def __init__(self, encoder: TextualEncoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, tokens: Tensor, lengths: Tensor) -> EncodedText:
        """Encode source tokens (B, T) of lengths (B,)."""
        annotations = self.encoder(tokens, lengths)
        return EncodedText(self.decoder.prepare(annotations), annotations.mask.sum(1))


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
    decoder = build_decoder(settings.attention, settings.decoder, encoder.size, target_size)
    if settings.joint_embedding:
        encoder.borrow_embedding(decoder.embedding)
    return TranslationModel(encoder, decoder)


def load_translation_model(
    folder: ModelFolder, settings: TranslationSettings, source_size: int, target_size: int
) -> TranslationModel:
    """Load the model of a folder, in float32 and eval mode, its parameters fixed.

    Raises:
        UserError: the weights are missing, damaged or of other sizes, or the settings impossible.
    """

    def build() -> TranslationModel:
        try:
            return build_translation_model(settings, source_size, target_size)
        except (ValueError, RuntimeError, TypeError) as error:
            raise UserError(f"{folder.path}: invalid model sizes: {error}") from error

    return build_with_weights(build, folder.path).eval().requires_grad_(False)
