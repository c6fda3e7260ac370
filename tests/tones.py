"""The data of the recipe `tones`, for tests that train."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "recipes" / "tones" / "prepare.py"


def write_tones(folder: Path, utterances: int) -> Path:
    """Write a training and a dev set of tones, and return their folder."""
    spec = importlib.util.spec_from_file_location("prepare_tones", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.prepare(folder, utterances=utterances, seed=0)
    return folder
