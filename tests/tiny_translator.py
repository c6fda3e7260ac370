"""A translation model folder for tests: random weights with outputs that depend on the source."""

from pathlib import Path

import torch

from asr.models.folder import save_folder
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import build_translation_model
from asr.tables import to_table
from asr.text.vocabulary import Vocabulary

SOURCE = Vocabulary.words(["go . i lost . i'm home !"], least=1)
TARGET = Vocabulary.words(["va ! j'ai perdu . je suis chez moi ."], least=1)


def write_tiny_translator(folder: Path, kind: str = "additive") -> Path:
    """Write a word translation model and return its folder."""
    settings = TranslationSettings(
        encoder=TextualSettings(embedding_size=8, state_size=8),
        attention=AttentionSettings(kind=kind, size=8),
        decoder=DecoderSettings(embedding_size=8, state_size=12, readout_size=8),
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = build_translation_model(settings, len(SOURCE), len(TARGET))
    for parameter in made.parameters():
        parameter.data *= 3
    save_folder(
        folder,
        task="translation",
        model=to_table(settings),
        vocabularies={"source": SOURCE.to_json(), "target": TARGET.to_json()},
        state=made.state_dict(),
        notes={},
    )
    return folder
