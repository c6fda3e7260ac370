"""Reading a model folder with numpy alone: settings, vocabularies and weights.

Nothing in a folder can be executed. `asr.models.folder` writes one, and fills modules from it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load

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
SCALE = ".scale"  # suffix: the factors of a matrix of 8 bits or less; see `StoredWeights`

Array = NDArray[Any]
Slices = Sequence[slice]


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


class Packed(NamedTuple):
    """A matrix of I inputs and O outputs, in 8 bits: a quarter of the memory.

    numbers: (I, O), int8 with factors, float32 without. factors: (groups of inputs, O).
    """

    numbers: Array
    factors: NDArray[np.float32] | None = None

    def unpacked(self) -> NDArray[np.float32]:
        """Return the matrix (I, O), contiguous; without factors it is not a copy."""
        value = self.numbers.astype(np.float32, copy=False)
        if self.factors is not None:
            grouped = value.reshape(len(self.factors), -1, value.shape[-1])
            grouped *= self.factors[:, None]
        return value


class StoredWeights(Mapping[str, Array]):
    """Weights by their names. One of 8 bits or less is unpacked to float32 whenever asked for.

    So a model that copies each into the form it computes with is not in memory twice. In 8 bits
    (int8) a weight has one factor a row. In fewer (uint8) it is (bits, rows, columns / 8), a bit
    of each number in each plane, and each row has a factor for every group of columns.
    """

    def __init__(self, stored: Mapping[str, Array], packed: Collection[str] = ()) -> None:
        """Take arrays as they are in the file; packed: see `read_arrays`.

        Raises:
            ValueError: the factors of an array do not fit it.
        """
        self._stored = stored
        scaled = [name for name in stored if name + SCALE in stored and name not in packed]
        for name in scaled:
            if not _fits(stored[name], stored[name + SCALE]):
                raise ValueError(f"{name + SCALE} does not fit {name}")
        self._scales = {name: stored[name + SCALE] for name in scaled}
        self._hidden = {name + SCALE for name in scaled}

    def __getitem__(self, name: str) -> Array:
        """Return a weight."""
        if name in self._hidden:
            raise KeyError(name)
        stored = self._stored[name]
        if name not in self._scales:
            return stored
        scale = self._scales[name]
        if stored.dtype == np.uint8:
            return _from_planes(stored, scale)
        value = stored.astype(np.float32)
        value *= scale.reshape(-1, *[1] * (value.ndim - 1))
        return value

    def transposed(self, name: str, order: Slices | None = None) -> Array:
        """Return a matrix (rows, columns) as (columns, rows), contiguous, in float32.

        order: see `packed`.
        """
        return self.packed(name, order).unpacked()

    def packed(self, name: str, order: Slices | None = None) -> Packed:
        """Return a matrix (rows, columns) as (columns, rows), not unpacked.

        order: parts of its rows, in the order in which they become columns; None: all.
        """
        if name in self._hidden:
            raise KeyError(name)
        stored, scale = self._stored[name], self._scales.get(name)
        parts = (slice(None),) if order is None else order
        if scale is None:
            numbers = np.concatenate([stored[part] for part in parts]).T
            return Packed(np.ascontiguousarray(numbers).astype(np.float32, copy=False))
        scale = np.concatenate([scale[part] for part in parts]).astype(np.float32)
        factors = np.ascontiguousarray(scale.reshape(len(scale), -1).T)
        if stored.dtype == np.uint8:
            numbers = np.concatenate([_numbers(stored[:, part]) for part in parts])
        else:
            numbers = np.concatenate([stored[part] for part in parts])
        return Packed(np.ascontiguousarray(numbers.T), factors)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight as it is unpacked, by name."""
        found = {name: self._stored[name].shape for name in self}
        for name in self._scales:
            if self._stored[name].dtype == np.uint8:
                _, rows, eighths = found[name]
                found[name] = rows, 8 * eighths
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return (name for name in self._stored if name not in self._hidden)

    def __len__(self) -> int:
        """Return the number of weights."""
        return len(self._stored) - len(self._hidden)


def _fits(stored: Array, scale: Array) -> bool:
    """Return whether factors fit an array of 8 bits, (rows,), or of fewer, (rows, groups)."""
    if stored.dtype != np.uint8:
        return scale.shape == stored.shape[:1]
    if stored.ndim != 3 or scale.ndim != 2 or len(scale) != stored.shape[1]:
        return False
    return 0 < len(stored) < 8 and scale.size > 0 and 8 * stored.shape[2] % scale.shape[1] == 0


def _from_planes(stored: Array, scale: Array) -> Array:
    """Unpack bytes (bits, rows, columns / 8) with factors (rows, groups) to (rows, columns)."""
    value = _numbers(stored).astype(np.float32)
    grouped = value.reshape(*scale.shape, -1)
    grouped *= scale.astype(np.float32)[:, :, None]
    return value


def _numbers(stored: Array) -> NDArray[np.int8]:
    """Return the numbers of bytes (bits, rows, columns / 8) as (rows, columns)."""
    whole = np.unpackbits(stored[-1], axis=1)
    for plane in stored[-2::-1]:
        whole <<= 1
        whole |= np.unpackbits(plane, axis=1)
    return whole.view(np.int8) - np.int8(2 ** (len(stored) - 1))


def read_arrays(file: Path, packed: Collection[str] = ()) -> StoredWeights:
    """Read weights by their names, those of 8 bits or less unpacked to float32.

    packed: names that stay in 8 bits, each with its factors (rows,) under the name + `SCALE`.

    Raises:
        UserError: the file is missing or damaged, or holds numbers that are not finite.
    """
    try:
        arrays = load(read_verified(file))
        for name, value in arrays.items():
            if not is_finite(value):
                raise UserError(f"{file}: damaged: {name} holds numbers that are not finite")
        return StoredWeights(arrays, packed)
    except FileNotFoundError as error:
        raise UserError(f"{file}: no weights there") from error
    except UserError:
        raise
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: damaged or not safetensors: {error}") from error


def is_finite(value: Array) -> bool:
    """Return whether an array holds neither NaN nor an infinity."""
    if value.dtype == np.float16:  # by its exponent: ten times as fast as `isfinite`
        return not ((value.view(np.uint16) & 0x7C00) == 0x7C00).any()
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())
