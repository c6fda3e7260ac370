"""A transcript in its output formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from asr.render.subtitles import cues, each_cue, srt_parts, to_ctm, to_textgrid, vtt_parts
from asr.results import Segment, Transcript, Word

STREAMED: Final = ("text", "srt", "vtt", "ctm")  # can be written segment by segment


def parts(segments: Iterable[Segment], kind: str, name: str) -> Iterator[str]:
    """Yield the text of one recording in one of `STREAMED`, as its segments come.

    Text and subtitles are written with punctuation and case where the segments have them. Text with
    alternatives has a line of number, score and bare words for each, and empty lines between the
    segments.
    Subtitles leave out segments of low confidence. name: of the recording.
    """
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
    """Return a transcript in a format, with a final line break.

    kind: one of `STREAMED`, or "jsonl", "json" (one object), "ass" or "textgrid".
    """
    if kind in STREAMED:
        return "".join(parts(transcript.segments, kind, transcript.path or "-"))
    match kind:
        case "jsonl" | "json":
            # ASCII, because a path may contain characters that a terminal cannot display.
            return json.dumps(transcript.record()) + "\n"
        case "ass":
            from asr.render.ass import to_ass

            return to_ass(cues(_trusted(transcript.segments)))
        case "textgrid":
            tiers = {"words": transcript.words, "characters": transcript.characters}
            return to_textgrid(tiers, transcript.duration)
    raise ValueError(f"format {kind!r} is not known")


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
