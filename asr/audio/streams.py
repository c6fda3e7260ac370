"""Streams that cannot be rewound, such as pipes, as files that can, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, cast

import soundfile

from asr.errors import UserError

_IN_MEMORY: Final = 2**26  # bytes of a stream that are kept in memory; the others are on disk
_LARGEST: Final = 2**32  # bytes; the limit of WAV
_BYTES_PER_SECOND: Final = 1_536_000  # of 48 kHz, 8 channels, 32 bits; more is no recording
_HEAD: Final = 2**20  # bytes by which a format is recognised
# (offset, bytes) at the beginning of formats that ffmpeg decodes and libsndfile does not: MP4,
# Matroska, AAC, ASF, AMR, AVI, MPEG, AC-3, and the tag before MP3.
_MAGIC: Final = (
    (4, b"ftyp"), (0, b"\x1aE\xdf\xa3"), (0, b"\xff\xf1"), (0, b"\xff\xf9"), (0, b"0&\xb2u"),
    (0, b"#!AMR"), (0, b"RIFF"), (0, b"\x00\x00\x01\xba"), (0, b"G"), (0, b"\x0bw"), (0, b"ID3"),
)  # fmt: skip


@contextmanager
def spooled(stream: Any, name: str, longest: float) -> Iterator[BinaryIO]:
    """Read a binary stream to its end into a temporary file, which disappears afterwards.

    Above 64 MiB the beginning must be that of an audio format, so that an endless stream of
    anything else ends there.

    longest: seconds of audio, which limit the number of bytes.
    Raises:
        UserError: it is empty, too long, no audio, or a text stream.
    """
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        file = cast(BinaryIO, spool)
        _copy(stream, file, name, longest)
        file.seek(0)
        yield file


def _next(stream: Any, name: str) -> bytes:
    """Read a part of a stream; a text stream fails to decode audio or gives text."""
    try:
        chunk = stream.read(_HEAD)
    except UnicodeDecodeError:
        chunk = ""
    if isinstance(chunk, str):
        raise UserError(f"{name}: a text stream, wanted a binary one (sys.stdin.buffer, 'rb')")
    return bytes(chunk)


def _copy(stream: Any, file: BinaryIO, name: str, longest: float) -> None:
    most = min(_LARGEST, max(_IN_MEMORY, int(longest * _BYTES_PER_SECOND)))
    size = 0
    while chunk := _next(stream, name):
        file.write(chunk)
        is_checked, size = size > _IN_MEMORY, size + len(chunk)
        if size > _IN_MEMORY and not is_checked:
            _require_audio(file, name)
        if size > most:
            raise UserError(
                f"{name}: over {size / 2**30:.1f} GiB, more than {longest / 3600:g} hours of audio "
                "or than a stream may have: split it, or allow more with --longest"
            )
    if not size:
        raise UserError(f"{name}: empty, wanted a recording")


def _require_audio(file: BinaryIO, name: str) -> None:
    """Refuse a file, open at its end, that does not begin like audio."""
    end = file.tell()
    file.seek(0)
    head = file.read(_HEAD)
    file.seek(end)
    if any(head[at : at + len(magic)] == magic for at, magic in _MAGIC):
        return
    try:
        with tempfile.TemporaryFile() as copy:
            copy.write(head)
            copy.seek(0)
            soundfile.SoundFile(copy).close()
    except soundfile.LibsndfileError:
        raise UserError(
            f"{name}: {end >> 20} MiB that do not begin like audio, the rest is not read"
        ) from None
