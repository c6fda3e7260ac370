"""Write timed text as SRT, WebVTT, JSON lines, Praat TextGrid and CTM."""

from __future__ import annotations

import html
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from asr.render.markup import vtt_text
from asr.results import Span
from asr.text.abbreviations import goes_on
from asr.text.scripts import is_unspaced, wrap_unspaced

WIDTH: Final = 42  # characters per line, the usual limit of broadcasters
LINES: Final = 2  # lines per cue
LONGEST: Final = 7.0  # seconds, longest duration of a cue
PAUSE: Final = 0.7  # seconds of silence that end a cue
SHORT: Final = 15  # characters; a cue of fewer takes words from the one before it
LEAST: Final = 1.0  # seconds that a cue is shown if the pause after it allows
READING: Final = 20  # characters a second, the usual limit for adults

_ENDS: Final = (".", "?", "!", "。", "？", "！")  # of sentences


def fit(text: str, width: int = WIDTH) -> str:
    """Break a text into the smallest number of lines of at most `width`, about equally long."""
    needed = len(_wrap(text, width))
    narrowest = next(
        (
            w
            for w in range(max(1, len(text) // max(needed, 1)), width)
            if len(_wrap(text, w)) <= needed
        ),
        width,
    )
    return "\n".join(_wrap(text, narrowest))


def cues(
    spans: Iterable[Span],
    width: int = WIDTH,
    lines: int = LINES,
    longest: float = LONGEST,
    pause: float = PAUSE,
) -> list[Span]:
    """Group words (or divide segments) into readable cues.

    A cue ends before `pause` seconds of silence, before it would exceed `lines` lines of `width`
    characters or `longest` seconds, and at the end of a sentence of more than one line; not between
    an abbreviation ("Mrs.") and its name. Its text contains the line breaks. A single word may
    exceed either limit. The time of a segment of several words is divided among them in proportion
    to their number of characters. A cue begins with its first word. It ends with its last one, or,
    if it is shorter than `LEAST` or faster than `READING`, up to that much later, but not after the
    start of the next cue.
    """
    return [*each_cue(spans, width, lines, longest, pause)]


def each_cue(
    spans: Iterable[Span],
    width: int = WIDTH,
    lines: int = LINES,
    longest: float = LONGEST,
    pause: float = PAUSE,
) -> Iterator[Span]:
    """Yield each cue of `cues` as soon as the words of the next one are known.

    A cue that ended for lack of room, before a next one of less than `SHORT` characters, gives
    some of its last words to that.
    """
    held: Span | None = None
    for cue in _spoken_cues(spans, width, lines, longest, pause):
        if held is not None:
            yield _readable(held, cue.start, longest)
        held = cue
    if held is not None:
        yield _readable(held, math.inf, longest)


def _readable(cue: Span, following: float, longest: float) -> Span:
    """Let a cue last long enough to be read, at most until the `following` one, in seconds."""
    needed = min(max(LEAST, len(cue.text) / READING), longest)
    return cue._replace(end=max(cue.end, min(round(cue.start + needed, 3), following)))


def _spoken_cues(
    spans: Iterable[Span], width: int, lines: int, longest: float, pause: float
) -> Iterator[Span]:
    """Yield cues that begin and end with their words."""

    def fits(words: Sequence[Span]) -> bool:
        wrapped = _wrap(" ".join(one.text for one in words), width)
        is_short = words[-1].end - words[0].start <= longest
        return is_short and len(wrapped) <= lines and max(map(len, wrapped)) <= width

    full: list[Span] = []  # the words of a cue that ended for lack of room
    last: list[Span] = []
    for word in _words(spans):
        ends = bool(last) and (
            word.start - last[-1].end >= pause
            or (_ends_sentence(last[-1], word) and _length(last) > width)
        )
        if ends or (last and not fits([*last, word])):
            last, bound = (last, []) if ends else _without_bound(last, word)
            if not fits([*bound, word]):
                last, bound = [*last, *bound], []
            full, last = _balanced(full, last, fits)
            if full:
                yield _cue(full, width)
            full = last
            if ends:
                yield _cue(last, width)
                full = []
            last = bound
        last.append(word)
    for words in _balanced(full, last, fits):
        if words:
            yield _cue(words, width)


def _balanced(
    full: list[Span], last: list[Span], fits: Callable[[Sequence[Span]], bool]
) -> tuple[list[Span], list[Span]]:
    """Divide the words of two cues anew if the second is short: at a mark, or about equally."""
    if not full or not last or _length(last) >= SHORT:
        return full, last
    words = [*full, *last]
    places = [
        at
        for at in range(1, len(full))
        if not _is_bound(words[at - 1], words[at]) and fits(words[:at]) and fits(words[at:])
    ]
    if not places:
        return full, last

    def unevenness(at: int) -> tuple[bool, int]:
        before, after = _length(words[:at]), _length(words[at:])
        is_marked = words[at - 1].text.endswith((*_ENDS, ",", "，"))
        return not (is_marked and after >= SHORT), abs(before - after)

    at = min(places, key=unevenness)
    return words[:at], words[at:]


def _length(words: Sequence[Span]) -> int:
    return len(" ".join(word.text for word in words))


def _ends_sentence(word: Span, following: Span) -> bool:
    return word.text.endswith(_ENDS) and not _is_bound(word, following)


def _is_bound(word: Span, following: Span) -> bool:
    """Return whether a word is an abbreviation, such as "Mrs.", that belongs to the next one."""
    stem, stop = word.text.lstrip("\"'“‘(["), "."
    return stem.endswith(stop) and goes_on(stem.removesuffix(stop), following.text[:1])


def _without_bound(words: list[Span], following: Span) -> tuple[list[Span], list[Span]]:
    """Split off the abbreviations at the end that belong to the next word, if others remain."""
    end = len(words)
    while end and _is_bound(words[end - 1], words[end] if end < len(words) else following):
        end -= 1
    return (words[:end], words[end:]) if end else (words, [])


def to_srt(spans: Iterable[Span]) -> str:
    """Return spans as SubRip, one cue each (see `cues`); times are rounded to milliseconds."""
    return "".join(srt_parts(spans))


def srt_parts(spans: Iterable[Span]) -> Iterator[str]:
    """Yield the text of `to_srt`, span by span."""
    for number, span in enumerate(spans, 1):
        times = f"{stamp(span.start, ',')} --> {stamp(span.end, ',')}"
        empty_line = "\n" if number > 1 else ""
        yield f"{empty_line}{number}\n{times}\n{_block(span.text)}\n"


def to_vtt(spans: Iterable[Span]) -> str:
    """Return spans as WebVTT, one cue each (see `cues`); ``& < >`` are escaped."""
    return "".join(vtt_parts(spans))


def to_vtt_with_tags(spans: Iterable[Span]) -> str:
    """Return spans as `to_vtt`, with the tags of WebVTT in their texts."""
    return "".join(_vtt(spans, vtt_text))


def vtt_parts(spans: Iterable[Span]) -> Iterator[str]:
    """Yield the text of `to_vtt`, span by span."""
    return _vtt(spans, partial(html.escape, quote=False))


def _vtt(spans: Iterable[Span], escape: Callable[[str], str]) -> Iterator[str]:
    yield "WEBVTT\n"
    for span in spans:
        end = max(span.end, span.start + 0.001)  # a cue of no duration is none
        times = f"{stamp(span.start)} --> {stamp(end)}"
        yield f"\n{times}\n{escape(_block(span.text))}\n"


def to_json_line(path: str, text: str, words: Iterable[Span]) -> str:
    """Return one transcript as one line of JSON: "path", "text", and "words" with their times.

    Raises ValueError if a time or confidence is infinite or NaN, which JSON cannot represent.
    """
    timed = [
        {
            "text": word.text,
            "start": round(word.start, 3),
            "end": round(word.end, 3),
            "confidence": None if word.confidence is None else round(word.confidence, 4),
        }
        for word in words
    ]
    content = {"path": path, "text": text, "words": timed}
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def to_textgrid(tiers: Mapping[str, Iterable[Span]], duration: float) -> str:
    """Return tiers of spans (by name) as a Praat TextGrid in the long text format.

    duration: of the recording in seconds. Praat requires contiguous intervals: gaps become empty
    intervals, an overlap is assigned to the earlier span, and a span lasts at least one
    millisecond.
    """
    filled = {name: _without_overlap(spans) for name, spans in tiers.items()}
    end = max([_milliseconds(duration), *(spans[-1][1] for spans in filled.values() if spans)])
    rows = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]
    rows += ["xmin = 0", f"xmax = {end / 1000}", "tiers? <exists>", f"size = {len(filled)}"]
    rows.append("item []:")
    for number, (name, spans) in enumerate(filled.items(), 1):
        intervals = list(_with_gaps(spans, end))
        rows += [f"    item [{number}]:", '        class = "IntervalTier"']
        rows += [f"        name = {_quoted(name)}", "        xmin = 0"]
        rows += [f"        xmax = {end / 1000}", f"        intervals: size = {len(intervals)}"]
        for i, (start, stop, text) in enumerate(intervals, 1):
            rows += [f"        intervals [{i}]:", f"            xmin = {start / 1000}"]
            rows += [f"            xmax = {stop / 1000}", f"            text = {_quoted(text)}"]
    return "\n".join(rows) + "\n"


def to_ctm(name: str, words: Iterable[Span], channel: str = "1") -> str:
    """Return words as NIST CTM: name, channel, start, duration, word and, if known, confidence.

    Fields are separated by spaces, so spaces in `name` become ``_`` and a span of several words
    becomes several lines.
    """
    rows = []
    for word in _words(words):
        start, end = _milliseconds(word.start), _milliseconds(word.end)
        row = f"{'_'.join(name.split())} {channel} {start / 1000:.3f} {(end - start) / 1000:.3f}"
        confidence = "" if word.confidence is None else f" {word.confidence:.4f}"
        rows.append(f"{row} {word.text}{confidence}\n")
    return "".join(rows)


def _words(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield single words; the time of a longer span is divided in proportion to characters."""
    for span in spans:
        words = span.text.split()
        per_character = (span.end - span.start) / max(sum(map(len, words)), 1)
        start = span.start
        for i, word in enumerate(words, 1):
            end = span.end if i == len(words) else start + per_character * len(word)
            yield Span(word, start, end, span.confidence)
            start = end


def _cue(words: Sequence[Span], width: int) -> Span:
    """Make one cue of words; see `fit`."""
    text = fit(" ".join(word.text for word in words), width)
    known = [word.confidence for word in words if word.confidence is not None]
    confidence = sum(known) / len(known) if len(known) == len(words) else None
    return Span(text, words[0].start, words[-1].end, confidence)


def _wrap(text: str, width: int) -> list[str]:
    if is_unspaced(text):
        return wrap_unspaced(text, width)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def stamp(seconds: float, point: str = ".") -> str:
    """Return a time as 00:00:01.500; point: the decimal point.

    Round before dividing: otherwise 59.9996 s would become 00:00:60.000.
    """
    rest, milliseconds = divmod(_milliseconds(seconds), 1000)
    minutes, second = divmod(rest, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}{point}{milliseconds:03d}"


def _block(text: str) -> str:
    """Return the text without empty lines, which would end the cue."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _without_overlap(spans: Iterable[Span]) -> list[tuple[int, int, str]]:
    """Return spans in order as (start, end, text) in milliseconds, each at least 1 ms long."""
    placed: list[tuple[int, int, str]] = []
    for span in sorted(spans, key=lambda one: (one.start, one.end)):
        start = max(_milliseconds(span.start), placed[-1][1] if placed else 0)
        placed.append((start, max(_milliseconds(span.end), start + 1), span.text))
    return placed


def _with_gaps(spans: list[tuple[int, int, str]], end: int) -> Iterator[tuple[int, int, str]]:
    edges = [(0, 0, ""), *spans, (end, end, "")]
    for before, after in pairwise(edges):
        if before[1] < after[0]:
            yield before[1], after[0], ""
        if after[0] < after[1]:
            yield after
