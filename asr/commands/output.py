"""Endings of output files, and their atomic replacement."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from asr.errors import UserError

# format → ending of its files. "json" is one array; "jsonl" one object a line.
FORMATS: Final = {
    "text": ".txt",
    "jsonl": ".jsonl",
    "json": ".json",
    "srt": ".srt",
    "vtt": ".vtt",
    "ass": ".ass",
    "textgrid": ".TextGrid",
    "ctm": ".ctm",
}
OF_ONE_RECORDING: Final = ("srt", "vtt", "ass", "textgrid")
WITH_ALTERNATIVES: Final = ("text", "jsonl", "json")


def format_of(path: Path, known: dict[str, str]) -> str:
    """Return the format of a path by its ending; known: format → ending.

    Raises:
        UserError: the ending is not known.
    """
    for name, ending in known.items():
        if path.suffix.lower() == ending.lower():
            return name
    got = f"unknown format {path.suffix!r}" if path.suffix else "no ending"
    raise UserError(f"{path}: {got}; wanted {' '.join(known.values())}")


def format_name(text: str) -> str:
    """Return the name of a format, which may be given as an ending: "txt", "SRT", ".TextGrid"."""
    name = text.lower().removeprefix(".")
    return "text" if name == "txt" else name


def is_folder(output: str) -> bool:
    """Return whether an output is an existing folder, or a path that ends in a slash."""
    return output.endswith(("/", os.sep)) or Path(output).is_dir()


def format_of_output(output: str, known: dict[str, str]) -> str:
    """Return the format of a file by its ending, where a folder would be possible too.

    Raises:
        UserError: the ending is not known, or there is none.
    """
    try:
        return format_of(Path(output), known)
    except UserError as error:
        hint = "" if Path(output).suffix else f"; for a folder write {output}/"
        raise UserError(f"{error}{hint}") from None


def require_different(paths: Iterable[str | Path]) -> None:
    """Check that no two outputs are the same file.

    Raises:
        UserError: two are.
    """
    seen = set()
    for path in paths:
        target = os.path.realpath(path)
        if target in seen:
            raise UserError(f"{path}: given twice as an output")
        seen.add(target)


def require_no_input(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Check that no output is a file that is read; names that are no files ("-", texts) are not.

    Raises:
        UserError: one is.
    """
    read = {os.path.realpath(each) for each in inputs if os.path.isfile(each)}
    for path in outputs:
        if os.path.realpath(path) in read:
            raise UserError(f"{path}: an input, which would be replaced; name another output")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block ends without an error.

    It is created at once, so that an unwritable path is reported before any work is done. An
    existing file keeps its permissions. Devices and pipes are written directly.

    Raises:
        UserError: the path cannot be written.
    """
    target = Path(os.path.realpath(path))  # so that a link is kept
    if target.is_dir():
        raise UserError(f"{path}: a folder, wanted a file to write")
    if target.exists() and not target.is_file():
        yield target
        return
    if not target.parent.is_dir():
        raise UserError(f"{path}: cannot be written: there is no folder {path.parent}")
    part = target.with_name(f".{target.stem}.{os.urandom(16).hex()}.part{target.suffix}")
    try:
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        part.touch()
        if target.exists():
            part.chmod(target.stat().st_mode)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
