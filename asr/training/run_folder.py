"""The folder of a training run: what may be one, and whether a run of fine-tuning is the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from asr.audio.read import AUDIO_ENDINGS
from asr.corpora.manifest import Utterance, read_manifest
from asr.errors import UserError
from asr.model_folder import WEIGHTS, find_folder
from asr.training.config import SpeechConfig, load_config

CONFIG: Final = "finetune.toml"
TRAIN, DEV = "train.jsonl", "dev.jsonl"  # the two parts of a manifest
_RUN: Final = ("config.json", CONFIG, "checkpoints")  # a run has one of them
SHOWN: Final = 3  # most differences in utterances, and files, that are named


def require_run_folder(folder: Path) -> None:
    """Refuse a run folder in which other things are than a run, such as recordings.

    Hidden files, logs, configs and caches (folders without recordings) may be there.

    Raises:
        UserError: it is a file, a model, or a folder with other files and without a run.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file; wanted a folder for the run")
    if (folder / WEIGHTS).exists():
        raise UserError(f"{folder}: a model; wanted a new folder for the run")
    if not folder.is_dir() or any((folder / name).exists() for name in _RUN):
        return
    if found := sorted(each.name for each in folder.iterdir() if _is_strange(each)):
        more = ", …" if len(found) > SHOWN else ""
        raise UserError(
            f"{folder}: holds {', '.join(found[:SHOWN])}{more} and no run; wanted a new folder"
        )


def make_run_folder(folder: Path) -> None:
    """Create a run folder if it is missing.

    Raises:
        UserError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot create the run folder: {error.strerror}") from error


def _is_strange(path: Path) -> bool:
    if path.is_dir():
        return any(each.suffix.lower() in AUDIO_ENDINGS for each in path.rglob("*"))
    is_usual = path.suffix == ".toml" or "log" in path.name or path.name in (TRAIN, DEV)
    return not is_usual and not path.name.startswith(".")


def require_same(folder: Path, model: Path, manifest: Path, dev: Path | None) -> None:
    """Refuse to resume a run of fine-tuning with another model, manifest or dev set.

    Raises:
        UserError: what differs, or a manifest cannot be read.
    """
    config = load_config(folder / CONFIG)
    if not isinstance(config, SpeechConfig):
        raise UserError(f"{folder / CONFIG}: not a config of fine-tuning; wanted a new run folder")
    differing = []
    start = find_folder(Path(config.training.start_from))
    if start.resolve() != model.resolve():
        differing.append(f"the model was {start}, is {model}")
    held_out, its_dev = folder / DEV, folder / config.data.dev
    its_train = folder / config.data.train[0].manifest
    if its_dev.resolve() != held_out.resolve():
        if its_train.resolve() != manifest.resolve():
            differing.append(f"the manifest was {its_train}, is {manifest}")
        if dev is None or its_dev.resolve() != dev.resolve():
            differing.append(f"--dev was {its_dev}, is {dev or 'not given'}")
    elif dev is not None:
        differing.append(f"--dev was not given, is {dev}")
    else:
        audio_in = config.data.audio_folder(folder)
        begun_with = [*read_manifest(its_train, audio_in), *read_manifest(its_dev, audio_in)]
        differing += _changes(begun_with, read_manifest(manifest, audio_in), manifest)
    if differing:
        raise UserError(
            f"{folder}: begun otherwise: {'; '.join(differing)}; wanted a new run folder (this run "
            f"is resumed as it was begun by: asr train {folder / CONFIG} {folder})"
        )


def _changes(before: Sequence[Utterance], now: Sequence[Utterance], manifest: Path) -> list[str]:
    """Return how a manifest differs from the one that a run began with, one short text or none."""
    old, new = ({each.id: each for each in found} for found in (before, now))
    lacking = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    changed = [name for name in old if name in new and _content(old[name]) != _content(new[name])]
    parts = [
        f"{len(names)} {what}, such as {names[0]!r}"
        for names, what in (
            (lacking, "utterances fewer"),
            (added, "utterances more"),
            (changed, "utterances changed"),
        )
        if names
    ]
    return [f"{manifest} has {', '.join(parts)}"] if parts else []


def _content(utterance: Utterance) -> tuple[str, str, float, str | None]:
    audio = os.path.abspath(utterance.audio)
    return audio, utterance.text, utterance.duration, utterance.speaker
