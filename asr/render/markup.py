"""The text of a subtitle cue as words, which are translated, and markup, which is kept.

Kept are formatting tags (``<i>``, ``{\\an8}``), descriptions of sounds in brackets, lines that are
in parentheses, lyrics between notes (♪), and what begins the line of another speaker: a dash,
``>>``, or a name in capitals (``JOHN:``).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>|<\d\d:[\d:.]+>|\{[^{}]*\}")  # <i>, <v Name>, {\an8}
_OF_SRT: Final = re.compile(r"</?(?:[ibus]|font)(?:\s[^<>]*)?>|\{[^{}]*\}", re.IGNORECASE)
_OF_VTT: Final = re.compile(r"</?(?:[ibucv]|lang|ruby|rt)(?:[\s.][^<>]*)?>|<\d\d:[\d:.]+>")
_SOUND: Final = re.compile(r"\[[^\[\]]*\]|【[^【】]*】|[♪♫♬]+(?:[^♪♫♬]*[♪♫♬]+)?|\A\([^()]*\)\Z")
# One note: lyrics that go on in the next cue, or began in the one before.
_LYRICS: Final = re.compile(r"[♪♫♬]+[^♪♫♬]*|[^♪♫♬]*[♪♫♬]+")
_SONG: Final = re.compile(r"[♪♫♬]+[^♪♫♬]+[♪♫♬]+")  # as a whole line
_DASH: Final = re.compile(rf"((?:{TAG.pattern}|\s)*)[-\N{{EN DASH}}\N{{EM DASH}}]\s*(?=\S)")
# A speaker: >>, >> JOHN:, or a name in capitals before other text: JOHN:, MAN #2:, MRS. O'BRIEN:.
_NAME: Final = "(?=[^:]*[A-ZÀ-ÖØ-Þ]{2})[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ0-9 .,'’&#-]{1,30}:"
_SPEAKER: Final = re.compile(
    rf"((?:{TAG.pattern}|\s)*)(>>+(?:\s*{_NAME})?|{_NAME}(?=.*[a-z]|\s*\Z))(?=[\s<]|\Z)"
)
_WORD: Final = re.compile(r"\w")
_POINTS: Final = re.compile(r"[^\w\s\"“«(¿¡]+(?=\s|\Z)")  # punctuation after a word
_OPEN: Final = re.compile(r"(?<!\w)(\w+)((?:<[A-Za-z][^<>]*>|\{[^{}]*\})+)(?=\w)")  # within a word
_CLOSE: Final = re.compile(r"(?<=\w)((?:</[^<>]*>)+)(\w+)")


class Kind(Enum):
    """What a piece of a cue is; a tag has no width."""

    TAG = "tag"
    SOUND = "sound"
    WORDS = "words"


class Piece(NamedTuple):
    """A part of the text of a speaker; space: whether white space precedes it."""

    text: str
    kind: Kind
    space: bool = False


def turns(text: str) -> list[list[Piece]]:
    """Split the text of a cue by speaker, each into pieces; line breaks become spaces.

    A dash or a name at the start of a line, tags left out, begins the text of another speaker. A
    line of lyrics between notes stands alone. Pieces of words contain a letter or a digit.
    """
    found: list[list[Piece]] = []
    for dash, lines in _speakers(text):
        content = " ".join(lines)
        pieces = [] if dash is None else [*_tags(dash), Piece("-", Kind.SOUND)]
        begin = len(pieces)
        own: list[Piece] = []
        if name := _SPEAKER.match(content):
            own = [*_tags(name[1]), Piece(name[2], Kind.SOUND)]
            content = content[name.end() :]
        for piece in [*own, *_pieces(content)]:
            space = piece.space or (dash is not None and len(pieces) == begin)
            _append(pieces, piece._replace(space=space))
        if pieces:
            found.append(pieces)
    return found


def begins_speaker(pieces: Sequence[Piece]) -> bool:
    """Return whether a dash or a name begins the pieces of a turn."""
    first = next((piece.text for piece in pieces if piece.kind is not Kind.TAG), "")
    return first == "-" or _SPEAKER.match(first) is not None


def lay_out(pieces: Sequence[Piece], wrap: Callable[[str], str]) -> str:
    """Join pieces to a text whose lines are broken without counting the tags.

    wrap: breaks a text into lines; it may change white space only.
    """
    plain = ""
    tags: list[tuple[int, bool, str]] = []  # characters before it, whether it follows a space
    space = False
    for piece in pieces:
        space |= piece.space
        if piece.kind is Kind.TAG:
            tags.append((_visible(plain), space, piece.text))
        elif piece.text:
            plain += " " * (space and bool(plain)) + piece.text
            space = False
    return _with_tags(wrap(plain), tags)


def without_tags(text: str) -> str:
    """Return a text without formatting tags."""
    return TAG.sub("", text)


def srt_text(text: str) -> str:
    """Return a text with those tags that players of SubRip know."""
    return TAG.sub(lambda tag: tag[0] if _OF_SRT.fullmatch(tag[0]) else "", text)


def vtt_text(text: str) -> str:
    """Return a text for WebVTT: with its tags alone, and ``& < >`` escaped outside of them."""
    parts, done = [], 0
    for tag in TAG.finditer(text):
        parts.append(html.escape(text[done : tag.start()], quote=False))
        parts.append(tag[0] if _OF_VTT.fullmatch(tag[0]) else "")
        done = tag.end()
    return "".join([*parts, html.escape(text[done:], quote=False)])


def _with_tags(text: str, tags: Iterable[tuple[int, bool, str]]) -> str:
    """Insert tags; each: the number of visible characters before it, and see `lay_out`."""
    starts = [place for place, character in enumerate(text) if not character.isspace()]
    parts, done = [], 0
    for count, after_space, tag in tags:
        end = starts[count - 1] + 1 if count else 0
        if after_space:
            end = starts[count] if count < len(starts) else len(text)
        parts += [text[done : max(done, end)], tag]
        done = max(done, end)
    return "".join([*parts, text[done:]])


def _visible(text: str) -> int:
    return sum(not character.isspace() for character in text)


def _speakers(text: str) -> list[tuple[str | None, list[str]]]:
    """Return what precedes the dash of each speaker (None without a dash), and the lines.

    A line of lyrics stands alone.
    """
    found: list[tuple[str | None, list[str]]] = []
    was_song = False
    for line in text.splitlines():
        dash = _DASH.match(line)
        said = line[dash.end() :] if dash else line
        is_song = _is_song(said)
        if dash or not found or _SPEAKER.match(line) or is_song or was_song:
            found.append((dash[1].strip() if dash else None, []))
        found[-1][1].append(said)
        was_song = is_song
    return found


def _is_song(line: str) -> bool:
    return _SONG.fullmatch(without_tags(line).strip()) is not None


def _pieces(text: str) -> list[Piece]:
    """Split a text into tags, sounds and the words between them; tags leave words whole."""
    text = _CLOSE.sub(r"\2\1", _OPEN.sub(r"\2\1", text))
    plain = without_tags(text).strip()
    is_sound = bool(_LYRICS.fullmatch(plain) or _SOUND.fullmatch(plain))
    kept = TAG if is_sound else re.compile(f"{TAG.pattern}|{_SOUND.pattern}")
    found: list[Piece] = []
    done = 0
    for match in [*kept.finditer(text), None]:
        between = text[done : match.start() if match else len(text)]
        if words := " ".join(between.split()):
            space = between[0].isspace()
            if not space and not is_sound and (points := _POINTS.match(words)):
                found.append(Piece(points[0], Kind.SOUND))
                words, space = words[points.end() :].strip(), True
            kind = Kind.SOUND if is_sound or not _WORD.search(words) else Kind.WORDS
            if found and kind is Kind.WORDS and (dash := _DASH.match(words)):  # after a sound
                found.append(Piece("-", Kind.SOUND, space=True))
                words, space = words[dash.end() :], True
            if words:
                found.append(Piece(words, kind, space))
        if match is not None:
            space = bool(between) and between[-1].isspace()
            kind = Kind.TAG if TAG.fullmatch(match[0]) else Kind.SOUND
            found.append(Piece(" ".join(match[0].split()), kind, space))
            done = match.end()
    return found


def _append(pieces: list[Piece], piece: Piece) -> None:
    """Append a piece; punctuation after words joins them, also behind their tags."""
    if piece.kind is Kind.SOUND and not piece.space and not _SOUND.match(piece.text):
        before = [place for place, each in enumerate(pieces) if each.kind is not Kind.TAG]
        if before and pieces[before[-1]].kind is Kind.WORDS:
            words = pieces[before[-1]]
            pieces[before[-1]] = words._replace(text=words.text + piece.text)
            return
    pieces.append(piece)


def _tags(text: str) -> list[Piece]:
    return [Piece(each, Kind.TAG) for each in TAG.findall(text)]
