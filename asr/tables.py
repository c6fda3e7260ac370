"""Settings as frozen dataclasses: documented, range-checked, read from TOML or JSON tables.

A field is written once, with its default, its meaning and its range:

    size: int = setting(128, "Size A of the keys.", least=1, most=4096)

Command-line help, the configuration reference and the checks are generated from it.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import (
    Any,
    ClassVar,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from asr.errors import UserError

Value = TypeVar("Value")
Made = TypeVar("Made")

LARGEST_SIZE = 65_536  # of a vector or a layer; larger values are typing errors
MOST_LAYERS = 64
LARGEST_COUNT = 1_000_000_000  # of steps, utterances, tokens


class UnknownSetting(UserError):
    """A key that does not exist; `name` is the key with its section, `a.b.c`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class About(NamedTuple):
    """Meaning and range of a setting: `least` and `most` are inclusive, `above` is exclusive."""

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()

    def problem(self, value: object) -> str:
        """Return the error of a value (or list entry), as text after its name; "" if valid."""
        if isinstance(value, tuple):
            return next(filter(None, map(self.problem, value)), "")
        if isinstance(value, str):
            known = not self.choices or value in self.choices
            return "" if known else f"{value!r} is not one of: {', '.join(self.choices)}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return ""
        fits = (  # False for NaN
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and -LARGEST_COUNT <= value <= (LARGEST_COUNT if self.most is None else self.most)
        )
        limit = self.range or f"a number of at most {LARGEST_COUNT:,}"
        return "" if fits else f"must be {limit}, got {value}"

    @property
    def range(self) -> str:
        """The range in words; empty if there is none."""
        if self.choices:
            return "one of: " + ", ".join(self.choices)
        low = "" if self.least is None else f"at least {_plain(self.least)}"
        low = low if self.above is None else f"above {_plain(self.above)}"
        high = "" if self.most is None else f"at most {_plain(self.most)}"
        if self.least is not None and self.most is not None:
            return f"from {_plain(self.least)} to {_plain(self.most)}"
        return " and ".join(filter(None, (low, high)))


def setting(
    default: Value,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: Iterable[str] = (),
) -> Value:
    """Make a dataclass field with a default, a meaning and a range (see `About`)."""
    metadata = about(help, least=least, most=most, above=above, choices=choices)
    return dataclasses.field(default=default, metadata=metadata)


def about(
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: Iterable[str] = (),
) -> dict[str, About]:
    """Return the metadata of a required field: `train: str = field(metadata=about("…"))`."""
    return {"about": About(help, least, most, above, tuple(choices))}


def size(default: int, help: str) -> int:
    """Make a field for the size of a vector."""
    return setting(default, help, least=1, most=LARGEST_SIZE)


def share(default: Value, help: str) -> Value:
    """Make a field for a share or rate, 0 to 1."""
    return setting(default, help, least=0, most=1)


class Settings:
    """Base of all settings: creating an instance with a value out of range fails.

    RETIRED: keys of earlier versions with the only value that is accepted; they are ignored.
    """

    RETIRED: ClassVar[Mapping[str, object]] = types.MappingProxyType({})

    def __post_init__(self) -> None:
        """Check every value against its range; subclasses add checks that involve several values.

        Raises:
            UserError: a value out of range.
        """
        for each in dataclasses.fields(cast(Any, self)):
            if problem := _problem(each, getattr(self, each.name)):
                raise UserError(f"{each.name} {problem}")

    def unread(self) -> Iterator[Unread]:
        """Yield the keys that are disabled by the values of other keys."""
        yield from ()


class Unread(NamedTuple):
    """A key that is not read, and the condition, as text after "is not read"."""

    name: str
    condition: str


def from_table(kind: type[Made], table: Mapping[str, Any], where: str = "") -> Made:
    """Build a settings dataclass from a table; nested dataclasses are nested tables.

    Raises:
        UserError: an unknown key (the message names the most similar one), a missing key, or a
            value of the wrong type or out of range.
    """
    known = fields(kind)
    hints = type_hints(kind)
    retired: Mapping[str, object] = getattr(kind, "RETIRED", {})
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{where}.{key}" if where else key
        if key in retired and value == retired[key]:
            continue
        if key not in known:
            near = nearest(key, known)
            raise UnknownSetting(
                name, f"unknown setting {name}; did you mean {near}? known: {', '.join(known)}"
            )
        values[key] = _convert(hints[key], value, name)
        if problem := _problem(known[key], values[key]):
            raise UserError(f"{name} {problem}")
    for each in known.values():
        if _is_required(each) and each.name not in values:
            name = f"{where}.{each.name}" if where else each.name
            raise UserError(f"{name} is missing: {help_of(each) or 'it must be given'}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where or kind.__name__}: {error}") from error


def to_table(settings: Any) -> dict[str, Any]:
    """Convert a settings dataclass to plain tables for JSON or TOML."""
    return dataclasses.asdict(settings)


def refuse_unread(settings: Any, where: str = "") -> None:
    """Refuse keys that are not read and differ from their default.

    Nested settings are checked as well. Defaults pass, so that a table with all keys written out
    can be read again.

    Raises:
        UserError: names the first such key, the reason, and the most similar key that is read.
    """
    known = fields(type(settings))
    changed = {each.name for each in known.values() if _is_changed(each, settings)}
    if isinstance(settings, Settings) and changed:
        unread = {each.name: each.condition for each in settings.unread()}
        for name in known:
            if name in changed and name in unread:
                near = nearest(name, [each for each in known if each not in unread])
                raise UserError(
                    f"{where}{name} = {_toml(getattr(settings, name))} is not read "
                    f"{unread[name]}; the nearest key that is read: {where}{near}"
                )
    for name in known:
        value = getattr(settings, name)
        if dataclasses.is_dataclass(value):
            refuse_unread(value, f"{where}{name}.")


def unread_names(settings: Any, where: str = "") -> Iterator[str]:
    """Yield the full names, `a.b.c`, of all keys that are not read, nested settings included."""
    if isinstance(settings, Settings):
        for each in settings.unread():
            yield where + each.name
    for name in fields(type(settings)):
        value = getattr(settings, name)
        if dataclasses.is_dataclass(value):
            yield from unread_names(value, f"{where}{name}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name with the most similar spelling."""
    return difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]


def fields(kind: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass by name."""
    return {each.name: each for each in dataclasses.fields(kind)}


def help_of(field: dataclasses.Field[Any]) -> str:
    """Return the meaning of a field; empty if it has none."""
    found = field.metadata.get("about")
    return found.help if isinstance(found, About) else ""


def about_of(kind: type[Any], name: str) -> About:
    """Return the meaning and range of a setting."""
    found = fields(kind)[name].metadata["about"]
    assert isinstance(found, About)
    return found


def type_hints(kind: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name."""
    found = get_type_hints(kind)
    return {name: found[name] for name in fields(kind)}


def type_name(hint: Any, article: bool = False) -> str:
    """Return the name of a field's type in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return type_name(_without_none(hint), article)
    if origin is tuple:
        inner = get_args(hint)[0]
        return f"list of {'lists' if get_origin(inner) is tuple else _MANY.get(inner, 'tables')}"
    name = _PLAIN.get(hint, "a table")
    return name if article else name.removeprefix("a ")


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _is_changed(field: dataclasses.Field[Any], settings: Any) -> bool:
    if _is_required(field):
        return True
    if field.default is dataclasses.MISSING:  # a table
        return False
    return bool(getattr(settings, field.name) != field.default)


def _problem(field: dataclasses.Field[Any], value: object) -> str:
    found = field.metadata.get("about")
    return found.problem(value) if isinstance(found, About) else ""


def _without_none(hint: Any) -> Any:
    (inner,) = (each for each in get_args(hint) if each is not type(None))
    return inner


def _convert(hint: Any, value: Any, name: str) -> Any:
    """Check a value against its field's type and convert nested tables and lists."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise UserError(f"{name} must be a table, got {value!r}")
        return from_table(hint, value, name)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _convert(_without_none(hint), value, name)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{name} must be a list, got {value!r}")
        return tuple(_convert(get_args(hint)[0], each, f"{name}[]") for each in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UserError(f"{name} must be {_PLAIN.get(hint, hint.__name__)}, got {value!r}")
    return value


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(list(value)) if isinstance(value, tuple) else str(value)


_PLAIN = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_MANY = {int: "whole numbers", float: "numbers", str: "texts"}
