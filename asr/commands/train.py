"""`asr train`: train a model from a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def run(
    config: Path,
    folder: Path,
    data: Path | None,
    overrides: Sequence[str],
    continue_anyway: bool = False,
) -> int:
    """Train, or resume training, in a run folder; print the model folder and return 0.

    After SIGTERM, a checkpoint is written, nothing is printed, and 0 returned.

    Raises:
        UserError: the config, the data or the folder cannot be used.
    """
    from asr.training.config import load_config

    load_config(config, overrides)  # report a mistake before the slow import of torch
    from asr.training.run import run as train

    if (model := train(config, folder, data, overrides, continue_anyway)) is not None:
        print(model)
    return 0
