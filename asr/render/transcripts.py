"""A transcript in its output formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from asr.render.subtitles import cues, each_cue, srt_parts, to_ctm, to_textgrid, vtt_parts
from asr.results import Segment, Transcript, Word
from asr.text.abbreviations import parted_sign

STREAMED: Final = ("text", "srt", "vtt", "ctm")  # can be written segment by segment
SUBTITLES: Final = ("srt", "vtt", "ass")
MARKED: Final = ("text", *SUBTITLES)  # formats in which uncertain words can be marked


class Style(NamedTuple):
    """What the formats for readers show of uncertainty.

    mark_below: confidence below which a word is written as ``[word?]``; None marks none.
    keep_low_confidence: whether subtitles keep segments of low confidence.
    """

    mark_below: float | None = None
    keep_low_confidence: bool = False


DEFAULT_STYLE: Final = Style()


def parts(
    segments: Iterable[Segment], kind: str, name: str, style: Style = DEFAULT_STYLE
) -> Iterator[str]:
    """Yield the text of one recording in one of `STREAMED`, as its segments come.

    Text and subtitles are written with punctuation and case where the segments have them. Text with
    alternatives has a line of number, score and bare words for each, and empty lines between the
    segments. Subtitles leave out segments of low confidence, unless the style keeps them.
    name: of the recording.
    """
    match kind:
        case "text":
            yield from _texts(segments, style)
        case "srt":
            yield from srt_parts(each_cue(_shown(segments, style)))
        case "vtt":
            yield from vtt_parts(each_cue(_shown(segments, style)))
        case "ctm":
            yield from (to_ctm(Path(name).stem, segment.words) for segment in segments)
        case _:
            raise ValueError(f"format {kind!r} is not one of: {', '.join(STREAMED)}")


def render(transcript: Transcript, kind: str, style: Style = DEFAULT_STYLE) -> str:
    """Return a transcript in a format, with a final line break.

    kind: one of `STREAMED`, or "jsonl", "json" (one object), "ass" or "textgrid".
    """
    if kind in STREAMED:
        return "".join(parts(transcript.segments, kind, transcript.path or "-", style))
    match kind:
        case "jsonl" | "json":
            # ASCII, because a path may contain characters that a terminal cannot display.
            return json.dumps(transcript.record()) + "\n"
        case "ass":
            from asr.render.ass import to_ass

            return to_ass(cues(_shown(transcript.segments, style)))
        case "textgrid":
            # A space is no interval of its own: between adjacent words it has no duration.
            characters = [each for each in transcript.characters if each.text != " "]
            tiers = {"words": transcript.words, "characters": characters}
            return to_textgrid(tiers, transcript.duration)
    raise ValueError(f"format {kind!r} is not known")


def _texts(segments: Iterable[Segment], style: Style) -> Iterator[str]:
    """Yield the texts of segments joined by spaces, and a line break; or their alternatives."""
    separator = ""
    ending = "\n"
    for segment in segments:
        if segment.alternatives:
            yield separator
            for number, each in enumerate(segment.alternatives, 1):
                yield f"{number}\t{each.score:.2f}\t{each.text}\n"
            separator, ending = "\n", ""
        elif segment.words:
            yield separator + " ".join(word.text for word in _marked(segment, style))
            separator = " "
    yield ending


def _shown(segments: Iterable[Segment], style: Style) -> Iterator[Word]:
    """Yield the words of subtitles, as they are written."""
    for each in segments:
        if style.keep_low_confidence or not each.low_confidence:
            yield from _marked(each, style)


def _marked(segment: Segment, style: Style) -> Iterator[Word]:
    """Yield the words as they are written, with marks around those below the style's confidence."""
    for word in segment.written_words:
        if style.mark_below is None or word.confidence is None:
            yield word
        elif word.confidence < style.mark_below:
            stem, sign = parted_sign(word.text)
            yield word._replace(text=f"[{stem}?]{sign}")
        else:
            yield word
