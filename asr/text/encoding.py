"""The encoding of text files that others wrote, such as subtitles."""

from __future__ import annotations

import codecs
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from asr.errors import UserError, warn

WESTERN: Final = "cp1252"  # Windows for Western European languages
LARGEST: Final = 1 << 26  # bytes of a text
FEW: Final = 0.05  # share of bytes beyond ASCII below which a text is of a Western language
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Decoded(NamedTuple):
    """A text, its encoding, and whether the encoding was guessed from the bytes."""

    text: str
    encoding: str
    is_guess: bool = False


def read_text(source: Path | BinaryIO, encoding: str | None = None) -> str:
    """Return the text of a file or stream; an encoding that is guessed is a warning.

    encoding: see `decode`.

    Raises:
        UserError: the file cannot be read, or is larger than `LARGEST`; or see `decode`.
    """
    name = str(source) if isinstance(source, Path) else "the stream"
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None
    if len(content) > LARGEST:
        raise UserError(f"{name}: more than {LARGEST >> 20} MiB; wanted a text")
    text, found, is_guess = decode(content, name, encoding)
    if is_guess:
        warn(f"{name}: not UTF-8, read as {found}; if letters are wrong: --encoding NAME")
    return text


def decode(content: bytes, name: str, encoding: str | None = None) -> Decoded:
    """Decode the content of a file.

    name: of the file, for messages. encoding: None finds it: by a byte order mark, then UTF-8, then
    Windows-1252 where few bytes are beyond ASCII, else by charset-normalizer.

    Raises:
        UserError: the encoding does not exist, the content is not in it, or none is found.
    """
    marked = next((each for mark, each in _MARKS if content.startswith(mark)), None)
    try:
        if wanted := encoding or marked:
            return Decoded(content.decode(wanted).removeprefix("\ufeff"), wanted)
        return Decoded(content.decode("utf-8"), "utf-8")
    except LookupError:
        raise UserError(
            f"got encoding {encoding!r}; wanted a name such as utf-8 or cp1252"
        ) from None
    except UnicodeDecodeError:
        if wanted:
            raise UserError(f"{name}: not {wanted}; name its encoding: --encoding NAME") from None
    return _guessed(content, name)


def _guessed(content: bytes, name: str) -> Decoded:
    if sum(byte >= 0x80 for byte in content) < FEW * len(content):
        try:
            return Decoded(content.decode(WESTERN), WESTERN, is_guess=True)
        except UnicodeDecodeError:
            pass  # five bytes of this encoding stand for nothing
    from charset_normalizer import from_bytes

    found = from_bytes(content).best()
    if found is None:
        raise UserError(
            f"{name}: neither UTF-8 nor another known encoding; save the file as UTF-8 text, or "
            "name its encoding: --encoding NAME"
        )
    return Decoded(str(found), found.encoding, is_guess=True)
