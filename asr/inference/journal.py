"""Segments of a transcription in a file, so that it can be resumed after an interruption.

The first line says what is transcribed, with which model and options; each further line holds the
segments of some minutes of audio. Each line begins with the CRC-32 of its JSON, so that a torn or
damaged line ends what is taken over.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from asr.inference.pieces import Piece
from asr.results import Alternative, Character, Segment, StopReason, Word

FORMAT: Final = 1
_TIME_ERROR: Final = 1e-6  # seconds by which the times of the same piece may differ


class Journal:
    """Segments that were found before an interruption, and those that are found now.

    `known` is to be called for each group of pieces in order, and `add` where it returns None. The
    attention weights of segments are not kept.
    """

    def __init__(self, path: Path, subject: Mapping[str, Any]) -> None:
        """Open a journal; a new one is created by the first `add`.

        subject: what is transcribed and how, as JSON. A journal of another subject is emptied by
            the first `add`.
        Raises:
            OSError: the file cannot be read or written.
        """
        self.path = path
        self.is_resumed = self.is_of_another = False
        self._subject = {"format": FORMAT, **json.loads(json.dumps(subject))}
        self._file: BinaryIO | None = None
        if path.exists():
            self._file = path.open("r+b")
            self.is_resumed = _next_line(self._file) == self._subject
            self.is_of_another = not self.is_resumed
            if self.is_of_another:
                self._file.seek(0)
        self._is_behind = self.is_resumed  # lines may follow

    def known(self, pieces: Sequence[Piece]) -> list[Segment] | None:
        """Return the segments of these pieces if they were found before."""
        if not self._is_behind:
            return None
        assert self._file is not None
        place = self._file.tell()
        line = _next_line(self._file)
        if isinstance(line, list) and len(line) == len(pieces):
            found = [_segment(each) for each in line]
            if all(map(_is_of, found, pieces)):
                return found
        self._begin_anew(place)
        return None

    def add(self, segments: Iterable[Segment]) -> None:
        """Append the segments of the pieces for which `known` returned None."""
        if self._file is None:
            self._file = self.path.open("w+b")
        if self._file.tell() == 0:
            self._file.truncate()
            self._file.write(_line(self._subject))
        self._file.write(_line([_record(each) for each in segments]))
        self._file.flush()

    def close(self) -> None:
        """Close the file and keep it."""
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """Close the file and remove it: the transcription is finished."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _begin_anew(self, place: int) -> None:
        """Drop the lines from a place on."""
        assert self._file is not None
        self._file.seek(place)
        self._file.truncate()
        self._is_behind = False


def identity_of(paths: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return path, size and time of the last change in ns of files, to be compared later."""
    found = []
    for path in paths:
        status = path.stat()
        found.append((str(path.resolve()), status.st_size, status.st_mtime_ns))
    return found


def _next_line(file: BinaryIO) -> Any:
    """Return the content of the next line; None at the end, or if the line is damaged."""
    checksum, _, content = file.readline().partition(b" ")
    if not content.endswith(b"\n") or checksum != _checksum(content):
        return None
    return json.loads(content)


def _line(content: Any) -> bytes:
    line = json.dumps(content, default=float).encode() + b"\n"
    return _checksum(line) + b" " + line


def _checksum(line: bytes) -> bytes:
    return b"%08x" % zlib.crc32(line)


def _record(segment: Segment) -> dict[str, Any]:
    return {
        "start": segment.start,
        "end": segment.end,
        "words": segment.words,
        "characters": segment.characters,
        "log_probability": segment.log_probability,
        "stop_reason": segment.stop_reason,
        "score": segment.score,
        "english": segment.english,
        "low_confidence": segment.low_confidence,
        "alternatives": segment.alternatives,
    }


def _segment(record: dict[str, Any]) -> Segment:
    return Segment(
        start=record["start"],
        end=record["end"],
        words=tuple(Word(*each) for each in record["words"]),
        characters=tuple(Character(*each) for each in record["characters"]),
        weights=np.zeros((0, 0), np.float32),
        log_probability=record["log_probability"],
        stop_reason=StopReason(record["stop_reason"]),
        score=record["score"],
        english=record["english"],
        low_confidence=record["low_confidence"],
        alternatives=tuple(Alternative(*each) for each in record["alternatives"]),
    )


def _is_of(segment: Segment, piece: Piece) -> bool:
    apart = (segment.start - piece.start, segment.end - piece.start - piece.duration)
    return max(map(abs, apart)) < _TIME_ERROR
