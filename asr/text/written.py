"""Text as people write it ↔ bare words with a mark and a case each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from asr.text.abbreviations import goes_on
from asr.text.normalize import normalize


class Mark(IntEnum):
    """The punctuation after a word; `SIGNS` are its characters."""

    NONE = 0
    COMMA = 1
    STOP = 2
    QUESTION = 3


class Case(IntEnum):
    """The case of a word: all lower, first letter upper, all upper."""

    LOWER = 0
    CAPITAL = 1
    UPPER = 2


class Written(NamedTuple):
    """A bare word (see `asr.text.normalize`), the mark after it and its case."""

    word: str
    mark: Mark
    case: Case


SIGNS: Final = ("", ",", ".", "?")
_ENDS: Final = (Mark.STOP, Mark.QUESTION)
_QUOTES: Final = "\"'“”‘’«»()[]{}*_"
_DASH: Final = re.compile(r"--+|[–—]|(?<=\s)-(?=\s)")
_SIGNS_AT_END: Final = re.compile(r"[^\w%&$£€]*")  # of the text turned round: in linear time
_SHORTENED: Final = ("'tis", "'twas", "'twere", "'twill", "'twould", "'em")
_INITIALS: Final = re.compile(r"(?!i$)[a-z](?:\.[a-z])*")  # "w" of W. Brown, "u.s" of U.S.
_TITLES: Final = {"mister": "Mr.", "missus": "Mrs."}
_FIRST_PERSON: Final = re.compile(r"i(?:'(?:m|ll|d|ve|s))?")
_FIRST_LETTER: Final = re.compile(r"[a-z]")
_LONGEST_UPPER: Final = 6  # letters, as of UNESCO; the training texts have no longer word
_TWO_CAPITALS: Final = re.compile(r"(mc|o')([a-z]{3,})")  # McDonald, O'Neill


def read_written(text: str) -> list[Written]:
    """Return the bare words of a text with their marks and cases.

    ``! …`` count as a full stop if the next word begins with a capital, else as a comma; so do
    ``; :`` and dashes as a comma. Quotation marks and brackets are dropped; hyphens separate words.
    Words that the normalisation spells out (numbers, signs) are of lower case.
    """
    tokens = _DASH.sub(" , ", text).split()
    found: list[Written] = []
    for place, token in enumerate(tokens):
        following = tokens[place + 1].lstrip(_QUOTES)[:1] if place + 1 < len(tokens) else ""
        *inner, last = token.split("-")
        for part in inner:
            found += _words(part, Mark.NONE)
        stem, signs = _parted(last, following)
        words = _words(stem, _mark(signs, following))
        if not words and found and found[-1].mark is Mark.NONE:
            found[-1] = found[-1]._replace(mark=_mark(signs, following))
        found += words
    return found


def spell(
    words: Sequence[str], marks: Sequence[int], cases: Sequence[int], begins: bool = True
) -> list[str]:
    """Return each word as it is written, with its mark.

    words: bare. A word after a full stop or a question mark, and the first one if it `begins` a
    sentence, begins with a capital whatever its case; so does the pronoun "I". A word of more than
    `_LONGEST_UPPER` letters is not written in capitals throughout.
    """
    spelt: list[str] = []
    for word, mark, case in zip(words, marks, cases, strict=True):
        spelt.append(_cased(word, Case(case), begins) + SIGNS[mark])
        begins = ends_sentence(mark)
    return spelt


def ends_sentence(mark: int) -> bool:
    """Return whether a word with this mark is the last one of a sentence."""
    return mark in _ENDS


def begins_sentence(words: Sequence[Written]) -> list[bool]:
    """Return for each word whether it is the first, or follows a full stop or a question mark."""
    return [not place or words[place - 1].mark in _ENDS for place in range(len(words))]


def _cased(word: str, case: Case, begins: bool) -> str:
    stem, apostrophe, ending = word.partition("'")
    if case is Case.UPPER and len(stem) <= _LONGEST_UPPER:
        return stem.upper() + apostrophe + (ending if len(ending) < 2 else ending.upper())
    if case is Case.LOWER and not begins:
        return "I" + word[1:] if _FIRST_PERSON.fullmatch(word) else word
    if case is not Case.LOWER:
        if word in _TITLES:
            return _TITLES[word]
        if two := _TWO_CAPITALS.fullmatch(word):
            return two[1].capitalize() + two[2].capitalize()
    return _FIRST_LETTER.sub(lambda letter: letter[0].upper(), word, count=1)


def _parted(token: str, following: str) -> tuple[str, str]:
    """Split a token into its word, with quotes, and the signs after it; following: see `_mark`."""
    signs = _SIGNS_AT_END.match(token[::-1])
    assert signs is not None  # it may be empty
    stem, rest = token[: len(token) - signs.end()], signs[0][::-1]
    bare = stem.lstrip(_QUOTES)
    is_initial = _INITIALS.fullmatch(bare.lower())
    if rest.startswith(".") and (is_initial or goes_on(bare, following)):
        return stem + ".", rest[1:]
    return stem, rest


def _mark(signs: str, following: str) -> Mark:
    """Return the mark of the signs after a word; following: the next character, or empty."""
    goes_on = following.islower()
    if "?" in signs:
        return Mark.QUESTION
    if any(each in signs for each in "!…") or "..." in signs:
        return Mark.COMMA if goes_on else Mark.STOP
    if "." in signs:  # before a small letter it is that of an abbreviation
        return Mark.NONE if goes_on else Mark.STOP
    return Mark.COMMA if any(each in signs for each in ",;:") else Mark.NONE


def _words(part: str, mark: Mark) -> list[Written]:
    """Return the bare words of a part of a token; the last one has the mark."""
    words, case = _bare(part)
    marks = [*[Mark.NONE] * (len(words) - 1), mark]
    return [Written(word, one, case) for word, one in zip(words, marks, strict=False)]


@lru_cache(maxsize=100_000)  # most words of a text are frequent ones
def _bare(part: str) -> tuple[tuple[str, ...], Case]:
    """Return the bare words of a part of a token, and their case."""
    stem = part if part.lower().startswith(_SHORTENED) else part.lstrip(_QUOTES)
    stripped = (
        word if word.startswith(_SHORTENED) else word.strip("'") for word in normalize(stem).split()
    )
    words = tuple(filter(None, stripped))
    are_initials = stem.isupper() and all(len(word) == 1 for word in words)  # U.S.
    case = _case(stem) if len(words) == 1 else Case.CAPITAL if are_initials else Case.LOWER
    return words, case


def _case(stem: str) -> Case:
    letters = re.sub(r"['’]s$", "", stem)
    letters = "".join(filter(str.isalpha, letters))
    if len(letters) > 1 and letters.isupper():
        return Case.UPPER
    return Case.CAPITAL if letters[:1].isupper() else Case.LOWER
