"""Read SRT and WebVTT as timed text."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from asr.errors import UserError, warn
from asr.render.markup import TAG
from asr.results import Span

_TIME: Final = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)[,.](\d{1,3})"
_TIMING: Final = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_BEGINS_CUE: Final = re.compile(r"\s*\d+:[\d:.,]+\s*-->")


def parse_srt(text: str, on_damage: Callable[[str], None] | None = warn) -> list[Span]:
    """Read the cues of a SubRip file; their text keeps line breaks and formatting tags.

    on_damage: called with a line about empty lines in a cue, and about a counter without a cue;
        both are left out.
    Raises UserError, with the number of the line, if something is not a cue.
    """
    lines = _lines(text)
    starts = [at for at, line in enumerate(lines) if _BEGINS_CUE.match(line)]
    _require_cue(lines[: starts[0]] if starts else lines, is_empty=not starts)
    found = []
    for start, end in pairwise([*starts, len(lines)]):
        block, is_damaged = _lines_of_cue(lines[start:end], is_last=end == len(lines))
        if is_damaged and on_damage is not None:
            on_damage(f"SRT line {start + 1}: an empty line, or a counter alone, in a cue")
        found.append(_parse_cue(block, start + 1, "SRT"))
    return found


def _require_cue(head: Sequence[str], is_empty: bool) -> None:
    """Check that nothing but a counter is before the first cue; is_empty: there is none."""
    filled = [(number, line) for number, line in enumerate(head, 1) if line.strip()]
    wrong = [(number, line) for number, line in filled if not line.strip().isdigit()]
    for number, line in wrong or filled[: int(is_empty)]:
        _parse_cue([line], number, "SRT")


def _lines_of_cue(block: Sequence[str], is_last: bool) -> tuple[list[str], bool]:
    """Return the lines of a cue without the counter of the next one, and whether it is damaged."""
    lines = _stripped(block)
    is_number = len(lines) > 1 and lines[-1].strip().isdigit()
    has_counter = is_number and (not lines[-2].strip() if is_last else len(lines) == len(block))
    if has_counter:
        lines = _stripped(lines[:-1])
    filled = [line for line in lines if line.strip()]
    return filled, len(filled) < len(lines) or (is_last and has_counter)


def _stripped(block: Sequence[str]) -> list[str]:
    """Return lines without empty ones at the end."""
    end = max(at for at, line in enumerate(block, 1) if line.strip())
    return [*block[:end]]


def parse_vtt(text: str) -> list[Span]:
    """Read the cues of a WebVTT file; settings, names, notes, styles and regions are left out.

    Raises UserError, with the number of the line, if something is not a cue.
    """
    blocks = list(_blocks(text))
    if not blocks or not re.match(r"WEBVTT(?:\s|$)", blocks[0][1][0]):
        raise UserError("VTT: the first line must be WEBVTT; is this an SRT file?")
    if any("-->" in line for line in blocks[0][1]):
        raise UserError("VTT: an empty line must separate WEBVTT from the first cue")
    found = []
    for number, block in blocks[1:]:
        if re.match(r"(?:NOTE|STYLE|REGION)(?:\s|$)", block[0]):
            continue
        has_name = "-->" not in block[0]
        cue = _parse_cue(block[has_name:], number + has_name, "VTT")
        found.append(cue._replace(text=_unescaped(cue.text)))
    return found


def _unescaped(text: str) -> str:
    """Return the text of a WebVTT cue; an escaped ``<b>`` gets a word joiner, to be no tag."""

    def plain(part: str) -> str:
        return TAG.sub(
            lambda found: f"{found[0][0]}\N{WORD JOINER}{found[0][1:]}", html.unescape(part)
        )

    parts, done = [], 0
    for tag in TAG.finditer(text):
        parts += [plain(text[done : tag.start()]), tag[0]]
        done = tag.end()
    return "".join([*parts, plain(text[done:])])


def _lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield runs of lines between empty lines, each with the number of its first line."""
    block: list[str] = []
    for number, line in enumerate([*_lines(text), ""], 1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _parse_cue(block: Sequence[str], number: int, kind: str) -> Span:
    timing = _TIMING.fullmatch(block[0]) if block else None
    if timing is None:
        got = repr(block[0][:40]) if block else "nothing"
        raise UserError(
            f"{kind} line {number}: got {got}, wanted times 00:00:01,000 --> 00:00:02,000"
        )
    start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
    if end < start:
        raise UserError(
            f"{kind} line {number}: the cue ends at {end} s, before its start {start} s"
        )
    return Span("\n".join(line.strip() for line in block[1:]), start, end)


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    return (whole * 1000 + int(fraction.ljust(3, "0"))) / 1000
