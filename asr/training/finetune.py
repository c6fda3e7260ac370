"""The config of fine-tuning a recogniser on a manifest, with settings that fit its size."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from asr.checksums import write_whole
from asr.corpora.held_out import Split, split
from asr.corpora.manifest import read_manifest, write_manifest
from asr.corpora.manifest_checks import require_clean
from asr.corpora.remarks import remarks, shared_recordings
from asr.errors import UserError, warn
from asr.model_folder import ModelFolder, read_folder
from asr.models.settings import SpeechSettings
from asr.tables import from_table, unread_names
from asr.text.vocabulary import Vocabulary
from asr.training.config import parse_config
from asr.training.journal import log_line
from asr.training.run_folder import (
    CONFIG,
    DEV,
    TRAIN,
    make_run_folder,
    require_run_folder,
    require_same,
)

LEAST: Final = 20.0  # seconds of speech
DEV_SHARE: Final = 0.1  # of the seconds, where no dev set is given
DEV_MOST: Final = 100  # utterances that are validated on


class Plan(NamedTuple):
    """Settings that depend on the amount of speech. batch: seconds; see `TrainingSettings`."""

    batch: float
    steps: int
    rate: float
    frozen: tuple[str, ...]


def plan(seconds: float) -> Plan:
    """Return the settings for this much speech to train on.

    Ten epochs, at least 40 steps and at most 4,000. The convolutions stay frozen below ten minutes:
    so little speech has few sounds.
    """
    batch = 30.0 if seconds < 600 else 60.0
    steps = round(10 * seconds / batch)
    return Plan(
        batch=batch,
        steps=min(max(steps, 40), 4000),
        rate=1e-4,
        frozen=("encoder.front",) if seconds < 600 else (),
    )


def write_config(
    start: str,
    manifest: Path,
    dev: Path | None,
    folder: Path,
    overrides: Sequence[str] = (),
    audio_in: Path | None = None,
) -> Path:
    """Write the config of a run that fine-tunes a model, and return its path.

    start: a model folder, or the name of a model of the package. dev: None holds a part of the
    manifest out, by speakers where they are known, as train.jsonl and dev.jsonl in the run folder.
    overrides: of the config; they are checked, not written. audio_in: see `read_manifest`.
    An existing config is kept, so that the same command resumes the run.

    Raises:
        UserError: the model is no recogniser, a manifest cannot be read or has problems, it holds
            too little, an override is wrong, or the folder holds another run or other files.
            Nothing is written then.
    """
    path = folder / CONFIG
    model = read_folder(Path(start), "speech")
    require_run_folder(folder)
    if path.exists():
        require_same(folder, model.path, manifest, dev)
        return path
    if (folder / "config.json").exists():
        raise UserError(f"{folder}: holds another run; wanted a new folder")
    _check_manifests(manifest, dev, audio_in)
    utterances = read_manifest(manifest, audio_in)
    if dev is None:
        parts = split(utterances, DEV_SHARE)
        files = folder / TRAIN, folder / DEV
        audio_in = audio_in or manifest.parent
    else:
        parts = Split(utterances, read_manifest(dev, audio_in), by_speaker=False)
        files = manifest, dev
    seconds = sum(each.duration for each in parts.train)
    if seconds < LEAST:
        raise UserError(
            f"{manifest}: {seconds:.0f} s of speech to train on; wanted at least {LEAST:.0f} s"
        )
    comment = f"# Fine-tunes {start} on {seconds / 60:.1f} minutes of speech; written by asr train."
    text = "\n".join((comment, *_toml(_table(model, *files, audio_in, plan(seconds))), ""))
    parse_config(text, path, overrides)
    make_run_folder(folder)
    for warning in (*remarks(parts.train), shared_recordings(parts.train, parts.dev)):
        if warning:
            warn(warning)
    if dev is None:
        _write_parts(parts, *files)
    write_whole(path, text.encode())
    return path


def _check_manifests(manifest: Path, dev: Path | None, audio_in: Path | None) -> None:
    """Refuse manifests with problems; dev: None without one."""
    for given in (manifest, dev) if dev is not None else (manifest,):
        require_clean(given, Vocabulary.characters().inventory, audio_in=audio_in)


def _write_parts(parts: Split, train: Path, dev: Path) -> None:
    """Write the manifests of a training and a dev set."""
    write_manifest(train, parts.train)
    write_manifest(dev, parts.dev)
    log_line(f"{dev}: {len(parts.dev)} utterances held out to validate on; {parts.how}")


def _table(
    model: ModelFolder, manifest: Path, dev: Path, audio_in: Path | None, plan: Plan
) -> dict[str, Any]:
    settings = _read_keys(model)
    data: dict[str, Any] = {"dev": str(dev.resolve()), "dev_most": DEV_MOST}
    if audio_in is not None:
        data["audio_in"] = os.path.abspath(audio_in)
    if settings.get("encoder", {}).get("kind") == "frozen":
        data["frame_cache"] = "frames"
    data["train"] = [{"manifest": str(manifest.resolve())}]
    training = {
        "start_from": str(model.path.resolve()),
        "steps": plan.steps,
        "rate": plan.rate,
        "warmup_steps": max(5, plan.steps // 20),
        "decay_share": 0.5,
        "weight_decay": 0.02,
        "average": 0.98,
        "validate_every": math.ceil(plan.steps / 8),
        "log_every": max(1, plan.steps // 40),
        "frozen": list(plan.frozen),
    }
    return {
        "task": "speech",
        "data": data,
        "model": settings,
        "batches": {"size": plan.batch},
        "loss": {"ctc": 0.4} if settings.get("ctc", {}).get("subframes") else {},
        "training": training,
    }


def _read_keys(model: ModelFolder) -> dict[str, Any]:
    """Return the sizes of a model without the keys that are not read with the others."""
    unread = set(unread_names(from_table(SpeechSettings, model.model)))
    return {
        section: {
            name: value
            for name, value in values.items()
            if value is not None and f"{section}.{name}" not in unread
        }
        if isinstance(values, Mapping)
        else values
        for section, values in model.model.items()
    }


def _toml(table: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Yield the lines of a table; JSON writes its texts, numbers and lists as TOML does."""
    for name, value in table.items():
        if not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{name} = {json.dumps(value, ensure_ascii=False)}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield f"\n[{where}{name}]"
            yield from _toml(value, f"{where}{name}.")
        elif _is_tables(value):
            for each in value:
                yield f"\n[[{where}{name}]]"
                yield from _toml(each, f"{where}{name}.")


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
