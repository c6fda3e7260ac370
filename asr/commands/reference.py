"""The reference of config keys and commands in Markdown, generated from the code."""

from __future__ import annotations

import argparse
import dataclasses
import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from asr.tables import About, Settings, about_of, fields, type_hints, type_name
from asr.training.config import TASKS

_WIDTH = 120  # characters of a line of Markdown


def config_reference() -> str:
    """Return the page of all keys of a training config: one list for each section, by task."""
    parts = [
        "# Configuration",
        _wrapped(
            "A training config is a TOML file; `task` sets which keys it has. Paths are relative "
            "to the folder given by `--data` unless stated otherwise. Unknown keys, and keys that "
            "are disabled by other keys, are refused; the error names the most similar valid key. "
            "`asr train CONFIG RUN --set KEY=VALUE` sets single keys."
        ),
    ]
    for task, kind in TASKS.items():
        parts += [f'## task = "{task}"', _summary(kind), *_sections(kind, "")]
    return "\n\n".join(parts) + "\n"


def command_reference() -> str:
    """Return the page of all commands, with their arguments, options and examples."""
    from asr.commands.arguments import command_line

    parts = ["# Commands"]
    for name, parser in _commands(command_line()):
        options = [_option(each) for each in parser._actions if each.dest != "help"]
        options = [each for each in options if each]
        parts += [f"## {name}", parser.description or ""]
        if options:
            parts += ["\n".join(options)]
        _, _, examples = (parser.epilog or "").partition("examples:\n")
        if examples:
            lines = "\n".join(line.strip() for line in examples.splitlines())
            parts += [f"```sh\n{lines}\n```"]
    return "\n\n".join(parts) + "\n"


def _sections(kind: type[Settings], where: str) -> Iterator[str]:
    """Yield the parts of a section: its keys, then its subsections."""
    rows, inner = [], []
    for name, hint in type_hints(kind).items():
        section = _section_of(hint)
        if section is None or get_origin(hint) is tuple:
            rows.append(_row(kind, name, hint))
        if section is not None:
            inner.append((name, hint, section))
    if rows:
        yield "\n".join(rows)
    for name, hint, section in inner:
        brackets = "[[{}]]" if get_origin(hint) is tuple else "[{}]"
        yield f"### `{brackets.format(where + name)}`"
        yield _summary(section)
        yield from _sections(section, f"{where}{name}.")


def _section_of(hint: Any) -> type[Settings] | None:
    """Return the settings class of a key (or of its list entries); None for a plain value."""
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    return hint if isinstance(hint, type) and issubclass(hint, Settings) else None


def _row(kind: type[Settings], name: str, hint: Any) -> str:
    meaning = about_of(kind, name)
    default = fields(kind)[name].default
    shown = "required" if default is dataclasses.MISSING else f"default `{_toml(default)}`"
    text = " ".join(filter(None, (meaning.help, _range(meaning))))
    return _wrapped(f"- `{name}` ({type_name(hint)}, {shown}): {text}", indent="  ")


def _range(meaning: About) -> str:
    """Return a sentence on the range; empty if there is none."""
    if meaning.choices:
        return "One of: " + ", ".join(f"`{each}`" for each in meaning.choices) + "."
    return f"{meaning.range[:1].upper()}{meaning.range[1:]}." if meaning.range else ""


def _toml(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _summary(kind: type[Settings]) -> str:
    return _wrapped(re.sub(r"\s*\n\s*", " ", (kind.__doc__ or "").strip()))


def _commands(
    parser: argparse.ArgumentParser, name: str = "asr"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield a command and its subcommands, depth first, with their full names."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, its_parser in action.choices.items():
                yield from _commands(its_parser, f"{name} {below}")


def _option(action: argparse.Action) -> str:
    """Return the list item of an argument; empty for the list of commands."""
    if isinstance(action, argparse._SubParsersAction):
        return ""
    metavar = str(action.metavar or action.dest.upper())
    takes = "" if action.nargs == 0 else f" {metavar}"
    shown = ", ".join(f"`{each}{takes}`" for each in action.option_strings) or f"`{metavar}`"
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return _wrapped(f"- {shown}: {text}", indent="  ")


def _wrapped(text: str, indent: str = "") -> str:
    """Wrap a paragraph, or an item of a list whose other lines have the indent."""
    return textwrap.fill(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
