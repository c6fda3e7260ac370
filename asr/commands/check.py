"""`asr check`: verify the files of a model folder or a run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from asr.checksums import CHECKSUMS, read_checksums, read_verified, write_checksums
from asr.errors import UserError, complain
from asr.model_folder import CONFIG, LANGUAGE_MODEL, NETWORKS, WEIGHTS, find_folder, read_folder
from asr.render.tables import text_table
from asr.weights import read_arrays


class Finding(NamedTuple):
    """A file: its format, "whole", "no checksum" or "damaged", and what is wrong with it."""

    file: Path
    number: str
    state: str
    problem: str = ""


def run(path: Path, renew: bool) -> int:
    """Print the state of each file of a model or run folder; return 0, or 2 if one is damaged.

    renew: of a model folder, write the checksums anew first, for files that were changed on
        purpose; what does not load is refused.

    Raises:
        UserError: the path is neither a model nor a run.
    """
    path = find_folder(path)
    models = _models(path)
    if renew:
        for model in models:
            (model / CHECKSUMS).unlink(missing_ok=True)
            _load(model)
            write_checksums(model, _names(model))
    found = [each for model in models for each in _of_model(model)]
    found += _of_checkpoints(path / "checkpoints")
    if not found:
        raise UserError(f"{path}: neither a model folder nor the folder of a run")
    rows = [(str(each.file.relative_to(path)), each.number, each.state) for each in found]
    print(text_table(("file", "format", "checksum"), rows))
    damaged = [each for each in found if each.problem]
    for each in damaged:
        complain(each.problem)
    return 2 if damaged else 0


def _models(path: Path) -> list[Path]:
    """Return the model folders at a path and below it."""
    places = sorted({each.parent for each in path.rglob(CONFIG)})
    # The config of a run is no model's.
    return [
        each
        for each in places
        if (each / WEIGHTS).exists() or not (each / "metrics.jsonl").exists()
    ]


def _of_model(model: Path) -> Iterator[Finding]:
    """Yield the state of each file of a model folder, and of the model as a whole."""
    problems = []
    for name in _names(model):
        file = model / name
        try:
            read_verified(file)
            state = "whole" if name in read_checksums(model) else "no checksum"
            yield Finding(file, _format(model), state)
        except (UserError, OSError) as error:
            problems.append(str(error))
            yield Finding(file, _format(model), "damaged", str(error))
    if problems:
        return
    try:
        _load(model)
    except UserError as error:
        yield Finding(model, _format(model), "does not load", str(error))


def _names(model: Path) -> list[str]:
    """Return the names of a model's files, those in its list that are missing included."""
    try:
        listed = {*read_checksums(model)}
    except UserError:
        listed = {CHECKSUMS}
    known = {CONFIG, WEIGHTS, LANGUAGE_MODEL, *NETWORKS}
    there = {each.name for each in model.glob("*.json")} - {CHECKSUMS}
    return sorted(listed | there | {name for name in known if (model / name).exists()})


def _format(model: Path) -> str:
    try:
        return str(json.loads((model / CONFIG).read_text("utf-8"))["format"])
    except (OSError, ValueError, KeyError, TypeError):
        return "?"


def _load(model: Path) -> None:
    """Load a model and what its folder holds.

    Raises:
        UserError: it cannot be loaded.
    """
    match read_folder(model).task:
        case "speech":
            from asr.inference.loaded import LoadedModel

            _ = LoadedModel.load(model).language_model
        case "translation":
            from asr.inference.translator import Translator

            Translator.load(model)
        case "written":
            from asr.runtime.punctuator import Punctuator

            Punctuator.load(model)
        case _:
            read_arrays(model / WEIGHTS)


def _of_checkpoints(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        return
    from asr.training.state import checkpoints, read_content

    for path in checkpoints(folder):
        try:
            number = read_content(path).get("format")
            state = "no checksum" if number is None else "whole"
            yield Finding(path, str(number or "?"), state)
        except (UserError, OSError) as error:
            yield Finding(path, "?", "damaged", f"{path}: {error}")
