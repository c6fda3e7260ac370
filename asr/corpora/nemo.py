"""Manifests of NeMo: JSON lines with audio_filepath, text, and perhaps offset and duration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asr.corpora.entries import Entry, path_id
from asr.errors import UserError
from asr.text.lines import read_entries


def read_nemo(path: Path) -> list[Entry]:
    """Read a manifest; paths are relative to it.

    Raises:
        UserError: the file cannot be read, or a line is no such object.
    """
    return [
        _entry(path, number, line, position)
        for position, (number, line) in enumerate(read_entries(path), 1)
    ]


def _entry(path: Path, number: int, line: str, position: int) -> Entry:
    try:
        record: Any = json.loads(line)
        audio, text = record["audio_filepath"], record["text"]
        offset, duration = record.get("offset"), record.get("duration")
        start = None if offset is None else float(offset)
        end = None if start is None or duration is None else start + float(duration)
        audio = path.parent / audio
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UserError(
            f'{path}:{number}: got {line[:40]!r}, wanted an object with "audio_filepath" and "text"'
        ) from None
    speaker = record.get("speaker")
    # Several lines may cut one recording, so the position makes the id.
    whole = path_id(audio, path.parent)
    identifier = f"{audio.stem}-{position}" if start is not None else whole
    return Entry(
        audio,
        str(text),
        id=identifier,
        speaker=None if speaker is None else str(speaker),
        start=start,
        end=end,
        line=number,
    )
