"""What a run was begun with: config, seed and data. A resumed run is compared with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from asr.tables import to_table
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
        "teacher.cache",
    }
)

# Keys that runs of earlier versions do not have, and the default, at which they are left out.
ADDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "training.frozen": repr(()),
        "teacher.outputs": repr(0.0),
        "teacher.alignments": repr(0.0),
        "model.attention.triton": repr(False),
    }
)


class Fingerprint(NamedTuple):
    """The config as `a.b.c` → value as text, and the data as file name → sha256."""

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
        names = dict.fromkeys((*self.data, *other.data))
        changed = [name for name in names if self.data.get(name) != other.data.get(name)]
        return found + [f"{name} has another content" for name in changed]


def fingerprint(config: Config, data: Path, config_folder: Path) -> Fingerprint:
    """Return the fingerprint of a run; data, config_folder: see `asr.training.run.run`.

    Data files are named as in the config, so that a corpus may be moved. Audio is not read: a
    manifest states its duration and its text.
    """
    files = dict(_files(config, data, config_folder))
    return Fingerprint(
        config={name: value for name, value in _flat(to_table(config)) if ADDED.get(name) != value},
        data={name: _digest(path) for name, path in files.items()},
    )


def _files(config: Config, data: Path, config_folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the data files that a config names, with their places."""
    if isinstance(config, SpeechConfig):
        given = config.data
        with_data = [*(each.manifest for each in given.train), given.dev, given.noise]
        with_config = [*(each.without for each in given.train), given.dev_ids]
    elif isinstance(config, LanguageConfig):
        with_data = [*config.data.train, config.data.dev]
        with_config = [config.data.dev_ids]
    else:
        pairs = config.data
        with_data = [pairs.train, pairs.train_target, pairs.dev, pairs.dev_target]
        with_config = [pairs.dev_list, pairs.test_list, pairs.extra, pairs.exchange]
    yield from ((name, data / name) for name in with_data if name)
    yield from ((name, config_folder / name) for name in with_config if name)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flat(table: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield where + name, repr(value)
