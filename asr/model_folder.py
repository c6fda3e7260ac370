"""Reading a model folder with numpy alone: settings, vocabularies and weights.

Nothing in a folder can be executed. `asr.models.folder` writes one, and fills modules from it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load_file

from asr.errors import UserError

FORMAT = 1
PRETRAINED = Path(__file__).parent / "pretrained"
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
# Beside the weights, where there are any:
LANGUAGE_MODEL = "words.npz"  # see `WordModel.load`
BOUNDARIES = "boundaries.safetensors"  # see `asr.models.boundary`
SCALE = ".scale"  # suffix of a matrix of 8 bits: one factor a row

Array = NDArray[Any]


@dataclass(frozen=True)
class ModelFolder:
    """The content of a model folder, but for the weights.

    task: "speech", "translation", "language" or "written". model: the table of its settings.
    notes: the training's record (data, steps, figures). decoding: the model's own defaults of the
    search (`asr.inference.options.DecodingOptions`), those that differ from the general ones.
    language_model: the model of the package whose language models are used; empty: its own.
    confidence: the calibration of word confidence (`asr.inference.confidence.Calibration`), if any.
    plausibility: that of `asr.inference.plausibility.Plausibility`, if any.
    written: the model of the package that puts punctuation and case into its transcripts (task
    "written"; see `asr.runtime.punctuator`); empty: none.
    """

    path: Path
    task: str
    model: dict[str, Any]
    notes: dict[str, Any]
    vocabularies: dict[str, str]
    decoding: dict[str, Any]
    language_model: str = ""
    confidence: dict[str, float] = field(default_factory=dict)
    plausibility: dict[str, float] = field(default_factory=dict)
    written: str = ""

    @property
    def language_model_file(self) -> Path | None:
        """The word n-grams of the folder, or of the model that it names; None without any."""
        home = find_folder(Path(self.language_model)) if self.language_model else self.path
        file = home / LANGUAGE_MODEL
        return file if file.is_file() else None


def find_folder(path: Path) -> Path:
    """Return a folder, or if there is none of this name, the model of the package with the name."""
    shipped = PRETRAINED / path
    return shipped if not path.exists() and shipped.is_dir() and len(path.parts) == 1 else path


def read_folder(path: Path, task: str | None = None) -> ModelFolder:
    """Read all but the weights.

    path: a folder, or the name of a model of the package. task: the wanted one; None allows any.

    Raises:
        UserError: the folder is not there, is no model, of another task or a newer format.
    """
    path = find_folder(path)
    if not path.exists():
        names = ", ".join(sorted(each.name for each in PRETRAINED.glob("*") if each.is_dir()))
        raise UserError(f"{path}: not a model folder, and not a model of the package ({names})")
    try:
        config = json.loads((path / CONFIG).read_text("utf-8"))
        found, number = config["task"], config["format"]
        vocabularies = {
            name: (path / f"{Path(name).name}.json").read_text("utf-8")
            for name in config["vocabularies"]
        }
        model, notes, decoding = config["model"], config["notes"], config.get("decoding", {})
        language_model = config.get("language_model", "")
        confidence, written = config.get("confidence", {}), config.get("written", "")
        plausibility = config.get("plausibility", {})
    except OSError as error:
        raise UserError(
            f"{path}: not a model folder ({error.strerror}: {error.filename})"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path / CONFIG}: not the config of a model: {error}") from error
    if number != FORMAT:
        raise UserError(f"{path}: format {number}, but this version reads format {FORMAT}")
    if task is not None and found != task:
        raise UserError(f"{path}: a model for {found}, but one for {task} is wanted")
    return ModelFolder(
        path,
        found,
        model,
        notes,
        vocabularies,
        decoding,
        language_model,
        confidence,
        plausibility,
        written,
    )


def read_arrays(file: Path) -> dict[str, Array]:
    """Read weights by their names, those of 8 bits unpacked to float32.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        return _restored(load_file(file))
    except FileNotFoundError as error:
        raise UserError(f"{file}: no weights there") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{file}: damaged or not safetensors: {error}") from error


def _restored(state: dict[str, Array]) -> dict[str, Array]:
    """Multiply matrices of 8 bits by their scales; what has no scale stays as it is."""
    restored: dict[str, Array] = {}
    for name, value in state.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in state:
            continue
        scale = state.get(name + SCALE)
        if scale is not None:
            value = value.astype(np.float32)
            value *= scale.reshape(-1, *[1] * (value.ndim - 1))
        restored[name] = value
    return restored
