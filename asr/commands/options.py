"""Error and help formats, options and value types that several commands use."""

from __future__ import annotations

import argparse
import os.path
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from asr.errors import FAILED, UserError
from asr.inference.options import DecodingOptions
from asr.runtime.names import RUNTIMES
from asr.tables import Settings, about_of, fields, type_hints, type_name
from asr.text.lines import read_entries

if TYPE_CHECKING:
    from asr.inference.recognizer import Recognizer


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of descriptions and examples; leaves space for the longest command."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that refer to the help of the command."""

    def error(self, message: str) -> NoReturn:
        """Print the error, with the nearest choice or option to one that is not known."""
        near = _nearest(message, self.format_help())
        meant = f"; did you mean {near}?" if near else self._commands(message)
        self.exit(FAILED, f"asr: error: {message}{meant} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here, so that the error refers to the help of the command."""
        given, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return given, unknown

    def _commands(self, message: str) -> str:
        """Return the commands to choose from, if the error of argparse is that one is missing."""
        if not message.startswith("the following arguments are required"):
            return ""
        groups = [each for each in self._actions if isinstance(each, argparse._SubParsersAction)]
        return "".join(f", one of {', '.join(each.choices)}" for each in groups)


def _nearest(message: str, about: str) -> str | None:
    """Return what an error of argparse about an unknown choice or option may have meant.

    about: the help of the command, which names its options. Python 3.14 has `suggest_on_error`.
    """
    if found := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
        given, known = found[1], re.findall(r"[\w-]+", found[2])
    elif found := re.match(r"unrecognized arguments: (--[\w-]+)", message):
        given, known = found[1], re.findall(r"--[\w-]+", about)
    else:
        return None
    return next(iter(get_close_matches(given, known, 1, 0.75)), None)


def add_command(
    commands: Any, name: str, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Add a command with a one-line summary, a description and examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=Help,
        allow_abbrev=False,
    )
    return parser


class Once(argparse.Action):
    """Stores the value of an option that may be given once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the value.

        Raises:
            argparse.ArgumentError: the option was given before.
        """
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "given twice; wanted once")
        setattr(namespace, self.dest, values)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of a speech model."""
    parser.add_argument(
        "-m",
        "--model",
        metavar="MODEL",
        help="Model folder, or a model of the package: english, english-plus, english-plus-small, "
        "english-small (default: english).",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the device of the model."""
    parser.add_argument(
        "--device",
        default="cpu",
        metavar="NAME",
        help="Device of the model: cpu, cuda, cuda:N, or auto, a GPU if there is one (default: "
        "cpu).",
    )


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Add the option that names what computes the model."""
    parser.add_argument(
        "--runtime",
        default="auto",
        choices=RUNTIMES,
        help="What computes the model: numpy, torch, onnx (a model made by `asr export`), or auto: "
        "on the CPU onnx if the model has graphs and onnxruntime is installed, else numpy for a "
        "model that it supports (default: auto).",
    )


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search."""
    for name, metavar in (
        ("beam", "N"),
        ("ctc_weight", "W"),
        ("lm_weight", "W"),
        ("ilm_weight", "W"),
        ("fastest", "N"),
    ):
        add_option(parser, DecodingOptions, name, metavar)
    parser.add_argument(
        "--language-model",
        type=Path,
        metavar="FILE",
        help="Word n-grams (.npz, or ARPA: .arpa, .arpa.gz) to use instead of the model's own.",
    )
    parser.add_argument(
        "--window",
        type=window,
        metavar="BACK,AHEAD",
        help="Restrict the attention to a window around its last position: seconds before and "
        "after, such as 0.4,0.8. 0,0 removes the model's own window.",
    )
    parser.add_argument(
        "--hotwords",
        action="extend",
        type=hotwords,
        metavar="FILE|WORDS",
        help="Words or phrases that the search favours, such as names: a list separated by commas, "
        "or a text file of lines or such lists. May be repeated.",
    )
    add_option(parser, DecodingOptions, "hotword_weight", "W")


def add_encoding(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the option for the encoding of a text file; of: what the file holds."""
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help=f"Encoding of {of}, such as cp1252 (default: found by its bytes).",
    )


def add_audio_in(parser: argparse.ArgumentParser) -> None:
    """Add the option that allows audio outside the folder of its manifest."""
    parser.add_argument(
        "--audio-in",
        type=Path,
        metavar="DIR",
        help="Folder that the audio of the manifest must lie in (default: that of the manifest).",
    )


def add_overrides(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the option that sets keys, as a list of KEY=VALUE in `overrides`; about: its help."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=about
    )


def add_live(parser: argparse.ArgumentParser, option: str, about: str) -> None:
    """Add the options of live audio; option: the one that reads samples from a pipe."""
    parser.add_argument(option, action="store_true", help=about)
    parser.add_argument(
        "--microphone",
        action="store_true",
        help="The same from the microphone, until Ctrl-C; needs the extra `microphone`.",
    )
    parser.add_argument(
        "--rate",
        type=count,
        default=16_000,
        metavar="HZ",
        help="Sample rate of live audio (default: %(default)s).",
    )


def add_option(
    parser: argparse.ArgumentParser, kind: type[Settings], name: str, metavar: str
) -> None:
    """Add an option for a setting, with the meaning, range and default of the setting.

    It is None if not given; then the setting's default applies.
    """
    default = f"{fields(kind)[name].default:g}"
    if kind is DecodingOptions:
        default = f"the model's own, else {default}"
    parser.add_argument(
        "--" + name.replace("_", "-"),
        type=_reader(kind, name),
        metavar=metavar,
        help=f"{about_of(kind, name).help} (default: {default})".replace("%", "%%"),
    )


def _reader(kind: type[Settings], name: str) -> Callable[[str], float]:
    """Return the argparse type of a setting: it parses a number and checks its range."""
    meaning, number = about_of(kind, name), type_hints(kind)[name]

    def read(text: str) -> float:
        try:
            value: float = number(text)
        except ValueError:
            value = float("nan")  # fails every range check
        if meaning.problem(value):
            wanted = f"{type_name(number, article=True)} {meaning.range}"
            raise argparse.ArgumentTypeError(f"got {text!r}, wanted {wanted}")
        return value

    return read


class Decoding(NamedTuple):
    """The options of the search, named as in `Recognizer.configured`; None if not given."""

    beam: int | None
    ctc_weight: float | None
    lm_weight: float | None
    language_model: Path | None
    ilm_weight: float | None
    fastest: float | None
    window: tuple[float, float] | None
    hotwords: Sequence[str] | None
    hotword_weight: float | None

    @classmethod
    def given(cls, arguments: argparse.Namespace) -> Decoding:
        """Take the options of `add_decoding` from parsed arguments."""
        return cls(*(getattr(arguments, name) for name in cls._fields))

    def applied(self, recognizer: Recognizer) -> Recognizer:
        """Return the recogniser configured with these options."""
        return recognizer.configured(**self._asdict())


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
    if not low <= number <= high:  # in this form also true for NaN
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted {wanted}")
    return number


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    return _number(text, 0, 1, "a number from 0 to 1")


def speed(text: str) -> float:
    """Read a factor from 0.5 to 2."""
    return _number(text, 0.5, 2, "a number from 0.5 to 2")


def window(text: str) -> tuple[float, float]:
    """Read the reach of a window, seconds before and after: both above 0 or both 0."""
    wanted = "seconds before and after, from 0.01 to 60, such as 0.4,0.8; or 0,0 for no window"
    try:
        back, ahead = (float(each) for each in text.split(","))
    except ValueError:
        back = ahead = float("nan")
    if (back, ahead) != (0, 0) and not (0.01 <= back <= 60 and 0.01 <= ahead <= 60):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted {wanted}")
    return back, ahead


def hotwords(text: str) -> tuple[str, ...]:
    """Read words separated by commas or lines, from a file or from the text itself."""
    path = Path(text)
    is_file = os.path.isfile(text)  # also false if the text is too long for a name
    is_name = bool(path.suffix) and not re.search(r"[\s,]", path.suffix)  # unlike "Dr. Who"
    if is_name and not is_file:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a file that exists, or words")
    if not is_file:
        return _separated([text])
    try:
        return _separated(entry.text for entry in read_entries(path, comment="#"))
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _separated(lists: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for each in lists for part in each.split(",") if (word := part.strip()))
