"""A model folder: sizes, vocabularies and weights; nothing in it can be executed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import save
from torch import Tensor, nn

from asr.checksums import renew_checksum, write_checksums, write_whole
from asr.errors import UserError
from asr.model_folder import (
    BOUNDARIES,
    CARD,
    CONFIG,
    FORMAT,
    LANGUAGE_MODEL,
    NETWORKS,
    VOICE_ACTIVITY,
    WEIGHTS,
    ModelFolder,
    Usage,
    read_folder,
)
from asr.models.rounding import is_grouped, planes, rounded
from asr.weights import SCALE, read_arrays

Module = TypeVar("Module", bound=nn.Module)

__all__ = [
    "BOUNDARIES",
    "CARD",
    "CONFIG",
    "FORMAT",
    "LANGUAGE_MODEL",
    "VOICE_ACTIVITY",
    "WEIGHTS",
    "ModelFolder",
    "Usage",
    "build_with_weights",
    "copy_folder",
    "load_weights",
    "read_folder",
    "read_weights",
    "save_folder",
]


def save_folder(
    path: Path,
    task: str,
    model: dict[str, Any],
    vocabularies: dict[str, str],
    state: dict[str, Tensor],
    notes: dict[str, Any],
    bits: int = 32,
    usage: Usage | None = None,
) -> None:
    """Write a model folder, with the checksums of its files.

    vocabularies: file stem → JSON of a `Vocabulary`. bits: of a stored weight, 32, 16, 8, 4 or
    3; with 8 or fewer matrices have scales (`asr.models.rounding`), and vectors keep 16.

    Raises:
        UserError: another number of bits, or a weight that is not finite, as stored.
    """
    path.mkdir(parents=True, exist_ok=True)
    config = {"format": FORMAT, "task": task, "model": model, "notes": notes}
    config["vocabularies"] = sorted(vocabularies)
    config |= {name: value for name, value in vars(usage or Usage()).items() if value}
    weights = pack(state, bits, path)
    files = {CONFIG: (json.dumps(config, indent=2) + "\n").encode()}
    files |= {f"{name}.json": content.encode() for name, content in vocabularies.items()}
    files[WEIGHTS] = weights
    for name, content in files.items():
        write_whole(path / name, content)
    write_checksums(path, {*files, LANGUAGE_MODEL, *NETWORKS})


def pack(state: dict[str, Tensor], bits: int, path: Path) -> bytes:
    """Return the content of the file of weights; path: of the folder, for messages.

    Raises:
        UserError: as `save_folder`.
    """
    if bits not in (32, 16, 8, 4, 3):
        raise UserError(f"weights of {bits} bits: wanted 32, 16, 8, 4 or 3")
    kept: dict[str, Tensor] = {}
    for name, value in state.items():
        kept |= _stored(name, value.detach().cpu(), bits)
    for name, value in kept.items():
        if not value.isfinite().all():
            raise UserError(f"{path}: not written: {name} is not finite in {bits} bits")
    return save(kept, {"format": str(FORMAT)})


def copy_folder(
    source: Path,
    target: Path,
    bits: int,
    decoding: dict[str, Any] | None = None,
    *,
    language_model: str | None = None,
    boundaries: str | None = None,
    voice_activity: str | None = None,
    written: str | None = None,
) -> None:
    """Write a copy of a model folder with weights of `bits` bits.

    Language models and the networks beside the weights are copied unchanged; without any, those of
    the target stay.
    Of absolute paths in its notes, which another machine does not have, the last name is kept.
    decoding and the others: see `Usage`; None keeps those of the source.

    Raises:
        UserError: the source is no model folder, or as in `save_folder`.
    """
    folder = read_folder(source)
    given = {
        "decoding": decoding,
        "language_model": language_model,
        "boundaries": boundaries,
        "voice_activity": voice_activity,
        "written": written,
    }
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    state = read_weights(source / WEIGHTS)
    save_folder(
        target,
        folder.task,
        folder.model,
        folder.vocabularies,
        state,
        _without_places(folder.notes),
        bits,
        replace(folder.usage, **changed),
    )
    copy_companions(source, target)


def _without_places(notes: Any) -> Any:
    """Return notes whose absolute paths are replaced by their last names."""
    if isinstance(notes, dict):
        return {key: _without_places(value) for key, value in notes.items()}
    if isinstance(notes, list):
        return [_without_places(each) for each in notes]
    if isinstance(notes, str) and Path(notes).is_absolute():
        return Path(notes).name
    return notes


def copy_companions(source: Path, target: Path) -> None:
    """Copy what stands beside the weights of a model folder to another one."""
    if target.samefile(source):
        return
    ngrams = source / LANGUAGE_MODEL
    for name in NETWORKS:
        if (source / name).is_file():
            shutil.copy(source / name, target)
            renew_checksum(target / name)
    if ngrams.is_file():
        recurrent = ngrams.with_suffix("")
        shutil.rmtree(target / recurrent.name, ignore_errors=True)
        shutil.copy(ngrams, target)
        renew_checksum(target / LANGUAGE_MODEL)
        if recurrent.is_dir():
            shutil.copytree(recurrent, target / recurrent.name)


def load_weights(module: nn.Module, path: Path, file: str = WEIGHTS) -> None:
    """Fill a module with weights of a model folder, checked by name and shape first.

    file: its name in the folder.

    Raises:
        UserError: the file is missing, damaged, or of a model of other sizes.
    """
    state = read_weights(path / file)
    _require_shapes(module, state, path / file)
    module.load_state_dict(state)


def build_with_weights(build: Callable[[], Module], path: Path) -> Module:
    """Build a module and fill it with the weights of a model folder.

    It is built without memory first, so that settings that do not fit the weights allocate nothing.

    Raises:
        UserError: as `load_weights`.
    """
    state = read_weights(path / WEIGHTS)
    with torch.device("meta"):
        _require_shapes(build(), state, path / WEIGHTS)
    module = build()
    module.load_state_dict(state)
    return module


def _require_shapes(module: nn.Module, state: dict[str, Tensor], file: Path) -> None:
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    differing = sorted(
        name for name in wanted.keys() | shapes.keys() if wanted.get(name) != shapes.get(name)
    )
    if differing:
        raise UserError(f"{file}: {differing[0]} and {len(differing) - 1} more do not fit")


def read_weights(file: Path) -> dict[str, Tensor]:
    """Read the weights of a model folder by their names, those of 8 bits or less unpacked.

    Raises:
        UserError: the file is missing or damaged.
    """
    return {name: torch.from_numpy(value) for name, value in read_arrays(file).items()}


def _stored(name: str, value: Tensor, bits: int) -> dict[str, Tensor]:
    """Return a weight as it is written, under its name; with its scale, where it has one."""
    if bits == 32 or not value.is_floating_point():
        return {name: value.contiguous().clone()}
    if bits == 16 or value.dim() < 2:
        return {name: value.to(torch.float16).contiguous()}
    whole, scale = rounded(value, bits)
    if bits < 8 and is_grouped(value):
        whole = planes(whole, bits)
    return {name: whole.contiguous(), name + SCALE: scale.contiguous()}
