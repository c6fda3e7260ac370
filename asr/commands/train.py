"""`asr train`: train a model from a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def run(config: Path, folder: Path, data: Path | None, overrides: Sequence[str]) -> int:
    """Train, or resume training, in a run folder; print the model folder and return 0.

    Raises:
        UserError: the config, the data or the folder cannot be used.
    """
    from asr.training.config import load_config

    load_config(config, overrides)  # report a mistake before the slow import of torch
    from asr.training.run import run as train

    print(train(config, folder, data, overrides))
    return 0
