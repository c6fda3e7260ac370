"""Recordings as input: their names, their least length, and their end or failure."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from asr.audio.arrays import takes_rate
from asr.audio.read import Source, Waveform, read
from asr.errors import UserError

SHORTEST = 0.1  # seconds; less holds no word

Progress: TypeAlias = Callable[[float], object]  # seconds of audio done since the last call


class Failure(NamedTuple):
    """A recording that could not be transcribed, and why; path: None if it is no file."""

    path: str | None
    error: UserError


class Finished(NamedTuple):
    """The end of the segments of a recording; path: None if it is no file."""

    path: str | None


def require_several(sources: object) -> None:
    """Check that sources are no single recording, whose parts would be taken for recordings.

    Raises:
        UserError: they are.
    """
    if isinstance(sources, str | os.PathLike | bytes | bytearray | Waveform) or takes_rate(sources):
        raise UserError(
            f"one recording, of type {type(sources).__name__}: wanted a list of recordings; for "
            "one there is transcribe()"
        )


def read_whole(source: Source, rate: int | None) -> Waveform:
    """Read a recording that is not too short.

    Raises:
        UserError: as `asr.audio.read.read` and `require_length`.
    """
    waveform = read(source, rate)
    require_length(waveform.duration, source)
    return waveform


def require_length(seconds: float, source: Source) -> None:
    """Check a duration.

    Raises:
        UserError: it is below `SHORTEST`.
    """
    if seconds < SHORTEST:
        raise UserError(
            f"{name_of(source)}: {seconds:.3f} s of audio is too short to transcribe; at "
            f"least {SHORTEST:g} s is needed"
        )


def path_of(source: Source) -> str | None:
    """Return the path of a file; None for another source."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def name_of(source: Source) -> str:
    """Return how messages name a source."""
    return path_of(source) or str(getattr(source, "name", "the audio"))
