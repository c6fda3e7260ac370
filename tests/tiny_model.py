"""A model folder for tests: random weights, small enough for fast decoding."""

from pathlib import Path

import torch

from asr.models.folder import save_folder
from asr.models.settings import (
    AcousticSettings,
    CTCSettings,
    DecoderSettings,
    SpeechAttentionSettings,
    SpeechSettings,
)
from asr.models.speech import build_speech_model
from asr.tables import to_table
from asr.text.vocabulary import Vocabulary


def write_tiny_model(
    folder: Path, ctc: bool = True, silence_mask: bool = False, kind: str = "convolutional"
) -> Path:
    """Write a random speech model and return its folder."""
    settings = SpeechSettings(
        encoder=AcousticSettings(kind=kind, channels=4, state_size=12, layers=2),
        attention=SpeechAttentionSettings(size=8, location_features=2, silence_mask=silence_mask),
        decoder=DecoderSettings(embedding_size=8, state_size=12, readout_size=8),
        ctc=CTCSettings(subframes=2 if ctc else 0),
    )
    vocabulary = Vocabulary.characters()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build_speech_model(settings, len(vocabulary))
        for parameter in model.parameters():  # larger, so that outputs depend on the audio
            torch.nn.init.normal_(parameter, std=0.5)
    model.normalizer.std.fill_(3.0)
    save_folder(
        folder,
        task="speech",
        model=to_table(settings),
        vocabularies={"vocabulary": vocabulary.to_json()},
        state=model.state_dict(),
        notes={},
        bits=16,
    )
    return folder
