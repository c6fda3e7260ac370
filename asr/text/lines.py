"""Reading of UTF-8 text files, plain or compressed, line by line with line numbers."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from asr.errors import UserError

_OPENERS: Final[dict[str, Callable[[Path], AbstractContextManager[object]]]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
}


class Line(NamedTuple):
    """A line of a file, without its line break; numbers count from 1."""

    number: int
    text: str


def read_lines(source: str | Path | BinaryIO) -> Iterator[Line]:
    """Read the lines of a file one by one.

    source: a path, decompressed if it ends in .gz or .xz; or an open binary stream.

    Only line feeds end a line (a carriage return before one is dropped), so a text may contain
    U+2028. A byte order mark at the start is dropped.

    Raises:
        UserError: the file cannot be read, or a line is not UTF-8; raised when it is reached.
    """
    name = str(source if isinstance(source, str | Path) else getattr(source, "name", "the stream"))
    number = 0
    try:
        with _opened(source) as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield Line(number, text.removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError:
        raise UserError(f"{name}:{number}: not UTF-8; save the file as UTF-8 text") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:  # damaged archives raise all
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name}: cannot be read: {reason}") from None


def read_entries(source: str | Path | BinaryIO, comment: str | None = None) -> Iterator[Line]:
    """Read the lines that are not blank, stripped of white space.

    comment: prefix of lines to ignore; None if there are no comments.

    Raises:
        UserError: as `read_lines`.
    """
    for number, text in read_lines(source):
        stripped = text.strip()
        if stripped and not (comment and stripped.startswith(comment)):
            yield Line(number, stripped)


def _opened(source: str | Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    if not isinstance(source, str | Path):
        return nullcontext(source)  # closed by the caller
    path = Path(source)
    opener = _OPENERS.get(path.suffix.lower())
    return (
        path.open("rb") if opener is None else cast(AbstractContextManager[BinaryIO], opener(path))
    )
