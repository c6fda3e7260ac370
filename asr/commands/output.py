"""Output formats, and atomic replacement of output files."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from asr.errors import UserError

if TYPE_CHECKING:
    from asr.results import Transcript

# format → ending of its files. "json" is one array; "jsonl" one object a line.
FORMATS: Final = {
    "text": ".txt",
    "jsonl": ".jsonl",
    "json": ".json",
    "srt": ".srt",
    "vtt": ".vtt",
    "textgrid": ".TextGrid",
    "ctm": ".ctm",
}
OF_ONE_RECORDING: Final = ("srt", "vtt", "textgrid")


def format_of(path: Path, known: dict[str, str]) -> str:
    """Return the format of a path by its ending; known: format → ending.

    Raises:
        UserError: the ending is not known.
    """
    for name, ending in known.items():
        if path.suffix.lower() == ending.lower():
            return name
    raise UserError(f"{path}: unknown format {path.suffix!r}; wanted {' '.join(known.values())}")


def render(transcript: Transcript, kind: str) -> str:
    """Return a transcript in one of `FORMATS`, with a final line break; "json" is one object.

    Text and subtitles are written with punctuation and case where the transcript has them.
    """
    from asr.render.subtitles import cues, to_ctm, to_srt, to_textgrid, to_vtt

    match kind:
        case "text":
            return transcript.written + "\n"
        case "jsonl" | "json":
            # ASCII, because a path may contain characters that a terminal cannot display.
            return json.dumps(transcript.record()) + "\n"
        case "srt":
            return to_srt(cues(transcript.written_words))
        case "vtt":
            return to_vtt(cues(transcript.written_words))
        case "textgrid":
            tiers = {"words": transcript.words, "characters": transcript.characters}
            return to_textgrid(tiers, transcript.duration)
        case "ctm":
            return to_ctm(Path(transcript.path or "-").stem, transcript.words)
    raise ValueError(f"format {kind!r} is not one of: {', '.join(FORMATS)}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block ends without an error.

    It is created at once, so that an unwritable path is reported before any work is done. Devices
    and pipes are written directly.

    Raises:
        UserError: the path cannot be written.
    """
    target = Path(os.path.realpath(path))  # so that a link is kept
    if target.is_dir():
        raise UserError(f"{path}: a folder, wanted a file to write")
    if target.exists() and not target.is_file():
        yield target
        return
    part = target.with_name(f".{target.stem}.part{target.suffix}")
    try:
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        part.touch()
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
