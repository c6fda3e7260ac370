"""A model folder: sizes, vocabularies and weights; nothing in it can be executed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from asr.errors import UserError

FORMAT = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
# Beside the weights, where there are any:
LANGUAGE_MODEL = "words.npz"  # see `WordModel.load`
BOUNDARIES = "boundaries.safetensors"  # see `asr.models.boundary`


@dataclass(frozen=True)
class ModelFolder:
    """What lies in a model folder, read but not yet made into a model.

    task: "speech", "translation" or "language". model: the table of its settings.
    notes: what training says of itself (data, steps, figures).
    """

    path: Path
    task: str
    model: dict[str, Any]
    notes: dict[str, Any]
    vocabularies: dict[str, str]


def save_folder(
    path: Path,
    task: str,
    model: dict[str, Any],
    vocabularies: dict[str, str],
    state: dict[str, Tensor],
    notes: dict[str, Any],
    bits: int = 32,
) -> None:
    """Write a model folder.

    vocabularies: file stem → JSON of a `Vocabulary`. bits: of a stored weight, 32, 16 or
    8; in 8 bits each row of a matrix has a scale of its own (vectors keep 16).

    Raises:
        UserError: another number of bits.
    """
    if bits not in (32, 16, 8):
        raise UserError(f"weights of {bits} bits: wanted 32, 16 or 8")
    path.mkdir(parents=True, exist_ok=True)
    config = {"format": FORMAT, "task": task, "model": model, "notes": notes}
    config["vocabularies"] = sorted(vocabularies)
    (path / CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    for name, content in vocabularies.items():
        (path / f"{name}.json").write_text(content, "utf-8")
    kept: dict[str, Tensor] = {}
    for name, value in state.items():
        kept |= _stored(name, value.detach().cpu(), bits)
    (path / WEIGHTS).write_bytes(save(kept))


def copy_folder(source: Path, target: Path, bits: int) -> None:
    """Write a copy of a model folder with its weights in so many bits.

    Its language models and boundary model come along as they are; where it has none, those of the
    target stay.

    Raises:
        UserError: the source is no model folder, or as in `save_folder`.
    """
    folder = read_folder(source)
    state = read_weights(source / WEIGHTS)
    save_folder(target, folder.task, folder.model, folder.vocabularies, state, folder.notes, bits)
    if target.samefile(source):
        return
    ngrams = source / LANGUAGE_MODEL
    if (source / BOUNDARIES).is_file():
        shutil.copy(source / BOUNDARIES, target)
    if ngrams.is_file():
        recurrent = ngrams.with_suffix("")
        shutil.rmtree(target / recurrent.name, ignore_errors=True)
        shutil.copy(ngrams, target)
        if recurrent.is_dir():
            shutil.copytree(recurrent, target / recurrent.name)


def read_folder(path: Path, task: str | None = None) -> ModelFolder:
    """Read all but the weights.

    task: the one that is wanted; None takes any.

    Raises:
        UserError: the folder is not there, is no model, of another task or a newer format.
    """
    try:
        config = json.loads((path / CONFIG).read_text("utf-8"))
        found, number = config["task"], config["format"]
        vocabularies = {
            name: (path / f"{Path(name).name}.json").read_text("utf-8")
            for name in config["vocabularies"]
        }
        model, notes = config["model"], config["notes"]
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
    return ModelFolder(path, found, model, notes, vocabularies)


def load_weights(module: nn.Module, path: Path, file: str = WEIGHTS) -> None:
    """Fill a module with weights of a model folder, checked by name and shape first.

    file: its name in the folder.

    Raises:
        UserError: the file is missing, damaged, or of a model of other sizes.
    """
    state = read_weights(path / file)
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    differing = sorted(
        name for name in wanted.keys() | shapes.keys() if wanted.get(name) != shapes.get(name)
    )
    if differing:
        raise UserError(f"{path / file}: {differing[0]} and {len(differing) - 1} more do not fit")
    module.load_state_dict(state)


def read_weights(file: Path) -> dict[str, Tensor]:
    """Read the weights of a model folder by their names, those of 8 bits unpacked.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        return _restored(load_file(str(file)))
    except FileNotFoundError as error:
        raise UserError(f"{file}: no weights there") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{file}: damaged or not safetensors: {error}") from error


_SCALE = ".scale"  # behind the name of a matrix of 8 bits: one factor a row


def _stored(name: str, value: Tensor, bits: int) -> dict[str, Tensor]:
    """Return a weight as it is written, under its name; with its scale, where it has one."""
    if bits == 32 or not value.is_floating_point():
        return {name: value.contiguous().clone()}
    if bits == 16 or value.dim() < 2:
        return {name: value.to(torch.float16).contiguous()}
    rows = value.float().flatten(1)
    scale = rows.abs().amax(1).clamp_min(1e-12) / 127  # (rows,)
    whole = (rows / scale[:, None]).round().to(torch.int8)
    return {name: whole.view(value.shape).contiguous(), name + _SCALE: scale}


def _restored(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo `_stored`; what has no scale stays as it is."""
    restored: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.endswith(_SCALE) and name.removesuffix(_SCALE) in state:
            continue
        scale = state.get(name + _SCALE)
        if scale is not None:
            value = value.float() * scale.view(-1, *[1] * (value.dim() - 1))
        restored[name] = value
    return restored
