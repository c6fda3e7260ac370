"""A model of punctuation and case for tests: random weights, so that words get all classes."""

import json
from pathlib import Path

import torch

from asr.checksums import renew_checksum
from asr.models.folder import CONFIG, save_folder
from asr.models.punctuation import PunctuationModel
from asr.models.settings import PunctuationSettings
from asr.tables import to_table
from asr.text.written import Case, Mark

SETTINGS = PunctuationSettings(buckets=500, embedding_size=6, state_size=5, layers=2)


def make_punctuation_model() -> PunctuationModel:
    """Return a random model."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model = PunctuationModel(SETTINGS, len(Mark), len(Case)).eval()
        for parameter in model.parameters():  # larger, so that classes depend on the words
            torch.nn.init.normal_(parameter, std=1.0 if parameter.dim() > 1 else 0.0)
    return model


def write_tiny_punctuator(folder: Path, bits: int = 32) -> Path:
    """Write a random model and return its folder."""
    state = make_punctuation_model().state_dict()
    save_folder(folder, "written", to_table(SETTINGS), {}, state, {}, bits)
    return folder


def use_punctuator(model: Path, name: str) -> Path:
    """Name a model of punctuation and case in the folder of a speech model, which is returned."""
    config = json.loads((model / CONFIG).read_text("utf-8"))
    (model / CONFIG).write_text(json.dumps(config | {"written": name}), "utf-8")
    renew_checksum(model / CONFIG)
    return model
