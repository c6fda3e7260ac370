"""Completion of command lines in shells, by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from asr.errors import UserError, install_command

SHELLS: Final = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """Prints the completion script of a shell, and leaves."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        """See `argparse.Action`."""
        print(script(parser, values))
        parser.exit()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script of a parser for a shell; arguments without choices are files.

    Raises:
        UserError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise UserError(
            f"completion needs shtab; install it: {install_command('completion')}"
        ) from None
    for action in _actions(parser):
        takes_value = action.nargs != 0 and not action.choices
        if takes_value and not isinstance(action, argparse._SubParsersAction):
            vars(action)["complete"] = shtab.FILE
    return str(shtab.complete(parser, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
