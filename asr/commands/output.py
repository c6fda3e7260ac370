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
    "ass": ".ass",
    "textgrid": ".TextGrid",
    "ctm": ".ctm",
}
OF_ONE_RECORDING: Final = ("srt", "vtt", "ass", "textgrid")
STREAMED: Final = ("text", "srt", "vtt", "ctm")  # can be written segment by segment
WITH_ALTERNATIVES: Final = ("text", "jsonl", "json")


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

    Text and subtitles are written with punctuation and case where the segments have them. Text with
    alternatives has a line of number, score and bare words for each, and empty lines between the
    segments.
    Subtitles leave out segments of low confidence. name: of the recording.
    """
    from asr.render.subtitles import each_cue, srt_parts, to_ctm, vtt_parts

    match kind:
        case "text":
            yield from _texts(segments)
        case "srt":
            yield from srt_parts(each_cue(_trusted(segments)))
        case "vtt":
            yield from vtt_parts(each_cue(_trusted(segments)))
        case "ctm":
            yield from (to_ctm(Path(name).stem, segment.words) for segment in segments)
        case _:
            raise ValueError(f"format {kind!r} is not one of: {', '.join(STREAMED)}")


def render(transcript: Transcript, kind: str) -> str:
    """Return a transcript in one of `FORMATS`, with a final line break; "json" is one object."""
    if kind in STREAMED:
        return "".join(parts(transcript.segments, kind, transcript.path or "-"))
    match kind:
        case "jsonl" | "json":
            # ASCII, because a path may contain characters that a terminal cannot display.
            return json.dumps(transcript.record()) + "\n"
        case "ass":
            from asr.render.ass import to_ass
            from asr.render.subtitles import cues

            return to_ass(cues(_trusted(transcript.segments)))
        case "textgrid":
            from asr.render.subtitles import to_textgrid

            tiers = {"words": transcript.words, "characters": transcript.characters}
            return to_textgrid(tiers, transcript.duration)
    raise ValueError(f"format {kind!r} is not one of: {', '.join(FORMATS)}")


def _texts(segments: Iterable[Segment]) -> Iterator[str]:
    """Yield the texts of segments joined by spaces, and a line break; or their alternatives."""
    separator = ""
    ending = "\n"
    for segment in segments:
        if segment.alternatives:
            yield separator
            for number, each in enumerate(segment.alternatives, 1):
                yield f"{number}\t{each.score:.2f}\t{each.text}\n"
            separator, ending = "\n", ""
        elif segment.written:
            yield separator + segment.written
            separator = " "
    yield ending


def _trusted(segments: Iterable[Segment]) -> Iterator[Word]:
    """Yield the words, as they are written, of all segments but those of low confidence."""
    return (word for each in segments if not each.low_confidence for word in each.written_words)


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
