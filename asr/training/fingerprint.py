"""What a run was begun with: config, seed and data. A resumed run is compared with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from asr.tables import Settings, to_table
from asr.training.config import Config, LanguageConfig, SpeechConfig

# Keys that a resumed run may change: how long, how often and where, and folders of caches.
MAY_CHANGE: Final = frozenset(
    {
        "training.steps",
        "training.validate_every",
        "training.log_every",
        "training.keep",
        "training.patience",
        "training.device",
        "training.processes",
        "training.loaders",
        "data.cache_gigabytes",
        "data.frame_cache",
        "data.audio_in",
        "teacher.cache",
    }
)

# Keys that runs of earlier versions do not have, and the default, at which they are left out.
ADDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "training.frozen": repr(()),
        "teacher.outputs": repr(0.0),
        "teacher.alignments": repr(0.0),
        "teacher.annotations": repr(0.0),
        "model.attention.triton": repr(False),
    }
)


IS: Final = " = "  # between a key and the file that it names


class Fingerprint(NamedTuple):
    """The config as `a.b.c` → value as text, and the data as `a.b.c = file name` → sha256.

    Those of earlier versions have file names alone.
    """

    config: dict[str, str]
    data: dict[str, str]

    def differences(self, other: Fingerprint) -> list[str]:
        """Return what differs in another one, each as a short text."""
        keys = [key for key in (*self.config, *other.config) if key not in MAY_CHANGE]
        found = [
            f"{key} was {self.config.get(key, 'unset')}, is {other.config.get(key, 'unset')}"
            for key in dict.fromkeys(keys)
            if self.config.get(key) != other.config.get(key)
        ]
        own, its = self.data, other.data
        if not all(IS in name for name in (*own, *its)):
            own, its = _by_file(own), _by_file(its)
        changed = [name for name in dict.fromkeys((*own, *its)) if own.get(name) != its.get(name)]
        return found + [f"{name} has another content" for name in changed]


def fingerprint(config: Config, data: Path, config_folder: Path) -> Fingerprint:
    """Return the fingerprint of a run; data, config_folder: see `asr.training.run.run`.

    Data files are named as in the config, so that a corpus may be moved. Audio is not read: a
    manifest states its duration and its text.
    """
    return Fingerprint(
        config={name: value for name, value in _flat(to_table(config)) if ADDED.get(name) != value},
        data={
            f"{key}{IS}{name}": _digest(folder / name)
            for folder, files in (
                (data, _data_files(config)),
                (config_folder, _config_files(config)),
            )
            for key, name in files.items()
            if name
        },
    )


def _by_file(data: Mapping[str, str]) -> dict[str, str]:
    """Return checksums by the names of the files alone, as in earlier versions."""
    return {name.rpartition(IS)[2]: digest for name, digest in data.items()}


def _data_files(config: Config) -> dict[str, str]:
    """Return the files that are relative to the data folder, by their keys."""
    data = config.data
    if isinstance(config, SpeechConfig):
        train = {
            f"data.train[{place}].manifest": each.manifest
            for place, each in enumerate(config.data.train)
        }
        texts = {f"text.files[{place}]": each for place, each in enumerate(config.text.files)}
        return {**train, **texts, **_named(data, "dev", "noise")}
    if isinstance(config, LanguageConfig):
        texts = {f"data.train[{place}]": each for place, each in enumerate(config.data.train)}
        return {**texts, **_named(data, "dev")}
    return _named(data, "train", "train_target", "dev", "dev_target")


def _config_files(config: Config) -> dict[str, str]:
    """Return the files that are relative to the folder of the config, by their keys."""
    if isinstance(config, SpeechConfig):
        without = {
            f"data.train[{place}].without": each.without
            for place, each in enumerate(config.data.train)
        }
        return {**without, **_named(config.data, "dev_ids")}
    if isinstance(config, LanguageConfig):
        return _named(config.data, "dev_ids")
    return _named(config.data, "dev_list", "test_list", "extra", "exchange")


def _named(data: Settings, *names: str) -> dict[str, str]:
    return {f"data.{name}": getattr(data, name) for name in names}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flat(table: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield where + name, repr(value)
