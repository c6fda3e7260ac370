"""What the arguments of the commands have in common: errors, help, options, kinds of values."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from asr.errors import FAILED

if TYPE_CHECKING:
    from asr.inference.recognizer import Recognizer


class Help(argparse.RawDescriptionHelpFormatter):
    """Descriptions and examples as they stand, and room for the longest command."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


class Parser(argparse.ArgumentParser):
    """argparse, with its errors on one line, which name the help of the command that was called."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"asr: error: {message} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is left over; argparse would leave that to the program, for all commands."""
        given, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return given, unknown


def add_command(
    commands: Any, name: str, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Add a command, with its one-line summary, its description and its examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=Help,
        allow_abbrev=False,
    )
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a speech model."""
    parser.add_argument(
        "-m", "--model", metavar="DIR", help="model folder (default: the English one shipped)"
    )


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search."""
    parser.add_argument(
        "--beam", type=count, metavar="N", help="width of the search, 1 is greedy (default: 24)"
    )
    parser.add_argument(
        "--ctc-weight",
        type=share,
        metavar="W",
        help="share of CTC in the score, 0 to 1 (default: 0.2)",
    )
    parser.add_argument(
        "--lm-weight",
        type=weight,
        metavar="W",
        help="weight of the language model, 0 is off (default: 0.75)",
    )
    parser.add_argument(
        "--language-model",
        type=Path,
        metavar="FILE",
        help="word n-grams (.npz) in place of the model's own",
    )
    parser.add_argument(
        "--ilm-weight",
        type=weight,
        metavar="W",
        help="how much of the decoder's own language model to take off beside the language model, "
        "0 is nothing (default: 0.3)",
    )
    parser.add_argument(
        "--fastest",
        type=rate,
        metavar="N",
        help="letters in a second of speech; faster speech is slowed down to it, 0 is never "
        "(default: 13.5)",
    )


class Decoding(NamedTuple):
    """The options of the search, under the names of `Recognizer.configured`; None if not given."""

    beam: int | None
    ctc_weight: float | None
    lm_weight: float | None
    language_model: Path | None
    ilm_weight: float | None
    fastest: float | None

    @classmethod
    def given(cls, arguments: argparse.Namespace) -> Decoding:
        """Take the options of `add_decoding`."""
        return cls(*(getattr(arguments, name) for name in cls._fields))

    def applied(self, recognizer: Recognizer) -> Recognizer:
        """Return the recogniser with these options."""
        return recognizer.configured(**self._asdict())


def use_one_thread() -> None:
    """Let torch work in one thread, unless OMP_NUM_THREADS says otherwise.

    A search is thousands of small products; two threads that wait for each other at each of them
    gain little on an idle machine and take ten times as long on a busy one.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a whole number of at least 1")
    return number


def _number(text: str, low: float, high: float, wanted: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:  # so that NaN fails it, too
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted {wanted}")
    return number


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    return _number(text, 0, 1, "a number from 0 to 1")


def weight(text: str) -> float:
    """Read a number from 0 to 10."""
    return _number(text, 0, 10, "a number from 0 to 10")


def speed(text: str) -> float:
    """Read a factor from 0.5 to 2."""
    return _number(text, 0.5, 2, "a number from 0.5 to 2")


def rate(text: str) -> float:
    """Read letters in a second, from 0 to 100."""
    return _number(text, 0, 100, "letters a second from 0 to 100")


def seconds(text: str) -> float:
    """Read a time from 1 s to an hour."""
    return _number(text, 1, 3600, "seconds from 1 to 3600")
