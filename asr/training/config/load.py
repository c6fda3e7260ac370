"""From a TOML file and the command line to a config."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from asr.errors import UserError
from asr.tables import UnknownSetting, from_table, refuse_unread, type_hints, unread_names
from asr.training.config.language import LanguageConfig
from asr.training.config.speech import SpeechConfig
from asr.training.config.translation import TranslationConfig

Config = SpeechConfig | TranslationConfig | LanguageConfig
TASKS: Final[Mapping[str, type[SpeechConfig] | type[TranslationConfig] | type[LanguageConfig]]] = (
    MappingProxyType(
        {
            "speech": SpeechConfig,
            "translation": TranslationConfig,
            "language": LanguageConfig,
        }
    )
)


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML config and apply `key.sub=value` overrides (values as in TOML, or plain text).

    Keys of the file that are not read because of an override, such as those of another attention
    kind, are dropped.

    Raises:
        UserError: the file is missing or not TOML, a key is unknown or not read by the task or
            with the other keys (the nearest one that is read is named), or a value has the
            wrong type or is out of range.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot read the config: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a TOML file: {error}") from error
    return parse_config(text, path, overrides)


def parse_config(text: str, path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the config of the text of a file; otherwise as `load_config`.

    path: of the file, for messages.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not a TOML file: {error}") from error
    unread_before = _unread(table)
    for override in overrides:
        _override(table, override)
    set_here = {each.partition("=")[0].strip() for each in overrides}
    for name in _unread(table) - unread_before - set_here:
        _drop(table, name)
    return config_from_table(table)


def config_from_table(table: dict[str, Any]) -> Config:
    """Build a config from its table; `task` says which kind.

    Raises:
        UserError: as in `load_config`.
    """
    task = table.get("task", "speech")
    if not isinstance(task, str) or task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    try:
        config = from_table(TASKS[task], table)
    except UnknownSetting as error:
        owners = [other for other, kind in TASKS.items() if error.name in keys(kind)]
        if owners:
            raise UserError(f"{error} ({error.name} is for {' and '.join(owners)})") from error
        raise
    refuse_unread(config)
    return config


def keys(kind: type[Any], where: str = "") -> Iterator[str]:
    """Yield the names of all keys of a config, sections included, as `a.b.c`."""
    for name, hint in type_hints(kind).items():
        yield where + name
        if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
            yield from keys(hint, f"{where}{name}.")


def _unread(table: Mapping[str, Any]) -> set[str]:
    """Return the full names of the keys that are not read with the others, set or not."""
    try:
        return set(unread_names(from_table(TASKS[table.get("task", "speech")], table)))
    except (UserError, KeyError, TypeError):
        return set()  # a wrong key or value, which is reported later


def _drop(table: dict[str, Any], name: str) -> None:
    """Remove `a.b`, which an override has made meaningless, if the file sets it."""
    *path, last = name.split(".")
    for part in path:
        table = table.get(part, {})
    table.pop(last, None)


def _override(table: dict[str, Any], override: str) -> None:
    """Put one `a.b=value` into nested tables."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set wants key=value, got {override!r}; e.g. training.steps=2000")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *path, last = key.strip().split(".")
    for name in path:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override}: {name} is not a table")
    table[last] = value
