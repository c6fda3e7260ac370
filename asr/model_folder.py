"""Reading a model folder: settings, vocabularies, and the names of its files.

Nothing in a folder can be executed. `asr.models.folder` writes one, and fills modules from it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from asr.checksums import read_verified
from asr.errors import UserError

FORMAT = 1
PRETRAINED = Path(__file__).parent / "pretrained"
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
# Beside the weights, where there are any:
LANGUAGE_MODEL = "words.npz"  # see `WordModel.load`
BOUNDARIES = "boundaries.safetensors"  # see `asr.models.boundary`
VOICE_ACTIVITY = "voice_activity.safetensors"  # see `asr.models.voice_activity`
NETWORKS = (BOUNDARIES, VOICE_ACTIVITY)
# Of `asr export`; the features only where the model computes its own:
ENCODER_GRAPH, STEP_GRAPH, FEATURES_GRAPH = "encoder.onnx", "step.onnx", "features.onnx"


@dataclass(frozen=True)
class Usage:
    """How a model is used; a copy, and a model that is trained from it, keep it.

    decoding: the model's own defaults of the search (`asr.inference.options.DecodingOptions`),
    those that differ from the general ones.
    language_model: the model of the package whose language models are used, or an absolute path;
    empty: its own.
    boundaries: that whose boundary model is used, likewise.
    voice_activity: that whose voice activity model cuts long recordings, likewise.
    confidence: the calibration of word confidence (`asr.inference.confidence.Calibration`), if any.
    written: the model of the package that puts punctuation and case into its transcripts (task
    "written"; see `asr.runtime.punctuator`); empty: none.
    plausibility: that of `asr.inference.plausibility.Plausibility`, if any.
    """

    decoding: dict[str, Any] = field(default_factory=dict)
    language_model: str = ""
    boundaries: str = ""
    voice_activity: str = ""
    confidence: dict[str, float] = field(default_factory=dict)
    written: str = ""
    plausibility: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFolder:
    """The content of a model folder, but for the weights.

    task: "speech", "translation", "language" or "written". model: the table of its settings.
    notes: the training's record (data, steps, figures).
    """

    path: Path
    task: str
    model: dict[str, Any]
    notes: dict[str, Any]
    vocabularies: dict[str, str]
    usage: Usage = field(default_factory=Usage)

    @property
    def language_model_file(self) -> Path | None:
        """The word n-grams of the folder, or of the model that it names; None without any.

        Raises:
            UserError: the named model has none.
        """
        return self._own_or_named(LANGUAGE_MODEL, self.usage.language_model, "language model")

    @property
    def boundaries_file(self) -> Path | None:
        """The boundary model, found like `language_model_file`.

        Raises:
            UserError: the named model has none.
        """
        return self._own_or_named(BOUNDARIES, self.usage.boundaries, "boundary model")

    @property
    def voice_activity_file(self) -> Path | None:
        """The voice activity model, found like `language_model_file`.

        Raises:
            UserError: the named model has none.
        """
        return self._own_or_named(VOICE_ACTIVITY, self.usage.voice_activity, "voice activity model")

    def _own_or_named(self, file_name: str, model: str, what: str) -> Path | None:
        file = (_named(model) or self.path) / file_name
        if model and not file.is_file():
            raise UserError(f"{self.path / CONFIG}: names a {what} that is missing: {file}")
        return file if file.is_file() else None

    @property
    def written_folder(self) -> Path | None:
        """The folder of the model of punctuation and case that this one names, if any."""
        return _named(self.usage.written)


def _named(name: str) -> Path | None:
    """Return the folder of a model of the package, or an absolute path as it stands.

    A name in a config is never looked for in the current folder: a result does not depend on it.
    """
    return PRETRAINED / name if name else None


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
    if problem := _run_in_place_of_model(path):
        raise UserError(f"{path}: {problem}")
    if not path.exists():
        names = _shipped(task)
        near = get_close_matches(path.name, names, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        shown = f"({', '.join(names)}){meant}"
        raise UserError(f"{path}: not a model folder, and not a model of the package {shown}")
    try:
        found = _parsed(path, json.loads(_text(path / CONFIG)))
    except OSError as error:
        raise UserError(
            f"{path}: not a model folder ({error.strerror}: {error.filename})"
        ) from error
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path / CONFIG}: not the config of a model: {error!r:.200}") from error
    if task is not None and found.task != task:
        raise UserError(f"{path}: a model for {found.task}, but one for {task} is wanted")
    return found


def _run_in_place_of_model(path: Path) -> str:
    """Return what to do if a path is a folder of `asr train`, or its model, not made yet."""
    for run in (path, path.parent):
        made = run / "model"
        if (run / "checkpoints").is_dir() and path in (run, made):
            if not (made / CONFIG).is_file():
                return f"the run {run} is not finished; the same asr train resumes it"
            if path == run:
                return f"a run of asr train; its model is {made}"
    return ""


def _shipped(task: str | None) -> list[str]:
    """Return the names of the package's models for a task, or for all."""
    folders = sorted(each for each in PRETRAINED.glob("*") if each.is_dir())
    return [each.name for each in folders if task in (None, _task(each))]


def _task(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / CONFIG).read_text("utf-8"))["task"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parsed(path: Path, config: dict[str, Any]) -> ModelFolder:
    """Return the content of a config, and read the vocabularies that it names."""
    if config["format"] != FORMAT:
        number = config["format"]
        raise UserError(f"{path}: format {number!r:.20}, but this version reads format {FORMAT}")
    usage = Usage(**{each.name: config[each.name] for each in fields(Usage) if each.name in config})
    found = ModelFolder(
        path,
        task=config["task"],
        model=config["model"],
        notes=config["notes"],
        vocabularies={
            name: _text(path / f"{Path(name).name}.json") for name in config["vocabularies"]
        },
        usage=usage,
    )
    texts = ("task", "language_model", "boundaries", "voice_activity", "written")
    for name in ("task", "model", "notes", *vars(usage)):
        value = getattr(usage if name in vars(usage) else found, name)
        if not isinstance(value, str if name in texts else dict):
            raise TypeError(f"{name} = {value!r:.40}")
    return found


def _text(file: Path) -> str:
    return read_verified(file).decode("utf-8")
