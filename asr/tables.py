"""Frozen dataclasses from TOML or JSON tables: every key known, every value of its type."""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from asr.errors import UserError

Settings = TypeVar("Settings")


def from_table(kind: type[Settings], table: Mapping[str, Any], where: str = "") -> Settings:
    """Build a settings dataclass from a table (nested tables for nested dataclasses).

    Raises:
        UserError: an unknown key (with the nearest known name), a missing one, or a value of
            another type than the field's.
    """
    fields = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{where}.{key}" if where else key
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(fields)}"
            raise UserError(f"unknown setting {name}; {hint}")
        values[key] = _convert(hints[key], value, name)
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where or kind.__name__}: {error}") from error


def to_table(settings: Any) -> dict[str, Any]:
    """Turn a settings dataclass back into plain tables, ready for JSON or TOML."""
    return dataclasses.asdict(settings)


def _convert(hint: Any, value: Any, name: str) -> Any:
    """Check a value against its field's type and convert nested tables and lists."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise UserError(f"{name} must be a table, got {value!r}")
        return from_table(hint, value, name)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (inner,) = (each for each in get_args(hint) if each is not type(None))
        return _convert(inner, value, name)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{name} must be a list, got {value!r}")
        return tuple(_convert(get_args(hint)[0], each, f"{name}[]") for each in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UserError(f"{name} must be {_PLAIN.get(hint, hint.__name__)}, got {value!r}")
    return value


_PLAIN = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
