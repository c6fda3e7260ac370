"""Output formats, and atomic replacement of output files."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from asr.errors import UserError

if TYPE_CHECKING:
    from asr.results import Segment, Transcript, Word

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
STREAMED: Final = ("text", "srt", "vtt", "ctm")  # can be written segment by segment
BARE: Final = ("ctm",)  # of these, always without punctuation and case


def format_of(path: Path, known: dict[str, str]) -> str:
    """Return the format of a path by its ending; known: format → ending.

    Raises:
        UserError: the ending is not known.
    """
    for name, ending in known.items():
        if path.suffix.lower() == ending.lower():
            return name
    raise UserError(f"{path}: unknown format {path.suffix!r}; wanted {' '.join(known.values())}")


def parts(segments: Iterable[Segment], kind: str, name: str) -> Iterator[str]:
    """Yield the text of one recording in one of `STREAMED`, as its segments come.

    Subtitles leave out segments of low confidence. name: of the recording.
    """
    from asr.render.subtitles import each_cue, srt_parts, to_ctm, vtt_parts

    match kind:
        case "text":
            yield from _joined(segment.text for segment in segments)
        case "srt":
            yield from srt_parts(each_cue(_trusted(segments)))
        case "vtt":
            yield from vtt_parts(each_cue(_trusted(segments)))
        case "ctm":
            yield from (to_ctm(Path(name).stem, segment.words) for segment in segments)
        case _:
            raise ValueError(f"format {kind!r} is not one of: {', '.join(STREAMED)}")


def render(transcript: Transcript, kind: str) -> str:
    """Return a transcript in one of `FORMATS`, with a final line break; "json" is one object.

    Text and subtitles are written with punctuation and case where the transcript has them.
    """
    if kind in STREAMED:
        segments = transcript.segments if kind in BARE else transcript.written_segments
        return "".join(parts(segments, kind, transcript.path or "-"))
    match kind:
        case "jsonl" | "json":
            # ASCII, because a path may contain characters that a terminal cannot display.
            return json.dumps(transcript.record()) + "\n"
        case "textgrid":
            from asr.render.subtitles import to_textgrid

            tiers = {"words": transcript.words, "characters": transcript.characters}
            return to_textgrid(tiers, transcript.duration)
    raise ValueError(f"format {kind!r} is not one of: {', '.join(FORMATS)}")


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts that are not empty, joined by spaces, and a line break."""
    space = ""
    for text in filter(None, texts):
        yield space + text
        space = " "
    yield "\n"


def _trusted(segments: Iterable[Segment]) -> Iterator[Word]:
    """Yield the words of all segments but those of low confidence."""
    return (word for each in segments if not each.low_confidence for word in each.words)


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
