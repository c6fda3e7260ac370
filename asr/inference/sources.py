"""What can be transcribed, and how it ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asr.audio.read import Waveform, read, read_blocks
from asr.errors import UserError

SHORTEST = 0.1  # seconds; less holds no word

Source: TypeAlias = str | os.PathLike[str] | bytes | BinaryIO | NDArray[Any] | Waveform
Progress: TypeAlias = Callable[[float], object]  # seconds of audio done since the last call


class Failure(NamedTuple):
    """A recording that could not be transcribed, and why; path: None if it is no file."""

    path: str | None
    error: UserError


class Finished(NamedTuple):
    """A recording of which all segments have been found; path: None if it is no file."""

    path: str | None


def blocks_of(source: Source, rate: int | None, longest: float) -> Iterable[NDArray[np.float32]]:
    return [source.samples] if isinstance(source, Waveform) else read_blocks(source, rate, longest)


def read_whole(source: Source, rate: int | None) -> Waveform:
    waveform = source if isinstance(source, Waveform) else read(source, rate)
    require_length(waveform.duration, source)
    return waveform


def require_length(seconds: float, source: Source) -> None:
    if seconds < SHORTEST:
        raise UserError(
            f"{name_of(source)}: {seconds:.3f} s of audio is too short to transcribe; at "
            f"least {SHORTEST:g} s is needed"
        )


def path_of(source: Source) -> str | None:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def name_of(source: Source) -> str:
    return path_of(source) or str(getattr(source, "name", "the audio"))
