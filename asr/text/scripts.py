"""Scripts without spaces between words: Chinese and Japanese."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_IDEOGRAPHS: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Texts, which `re` compiles and keeps when they are first used: this takes milliseconds.
_KANA: Final = "[\u3041-\u30ff]"
_LETTER: Final = f"[{_IDEOGRAPHS}\u3041-\u30ff]"
# Ideographs, kana, and punctuation of full width, which no space separates from its neighbours.
_UNSPACED: Final = f"[{_IDEOGRAPHS}\u3000-\u30ff\uff00-\uffef]"
_WORD: Final = rf"{_UNSPACED}|[^\s{_UNSPACED[1:-1]}]+"
_CLOSING: Final = "。，、！？；：”’）》」』…,.!?;:)"  # does not begin a line


def is_unspaced(text: str) -> bool:
    """Return whether at least half of the letters of a text are ideographs or kana."""
    if text.isascii():
        return False
    letters = sum(map(str.isalpha, text))
    return bool(letters) and 2 * len(re.findall(_LETTER, text)) >= letters


def has_unspaced(text: str) -> bool:
    """Return whether a text has ideographs or kana."""
    return not text.isascii() and bool(re.search(_LETTER, text))


def has_kana(text: str) -> bool:
    """Return whether a text has kana, and so is Japanese."""
    return bool(re.search(_KANA, text))


def begins_unspaced(text: str) -> bool:
    """Return whether no space stands before a text that begins so."""
    return not text.isascii() and bool(re.match(_UNSPACED, text))


def ends_unspaced(text: str) -> bool:
    """Return whether no space stands after a text that ends so."""
    return begins_unspaced(text[-1:])


def split_words(text: str) -> list[str]:
    """Return the words of a text; each ideograph, kana and sign of full width is one."""
    return re.findall(_WORD, text)


def join_words(words: Iterable[str]) -> str:
    """Join words or texts that are not empty by spaces, without any next to unspaced script."""
    joined = ""
    for word in filter(None, words):
        apart = joined and not (ends_unspaced(joined) or begins_unspaced(word))
        joined += f"{' ' * bool(apart)}{word}"
    return joined


def wrap_unspaced(text: str, width: int) -> list[str]:
    """Break a text into lines of at most `width` columns, of which an ideograph takes two.

    A line does not begin with closing punctuation, which may exceed the width.
    """
    lines: list[str] = []
    line, columns = "", 0
    for unit in re.findall(rf"\s*(?:{_WORD})", text):
        size = sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in unit)
        if line and columns + size > width and unit.strip()[0] not in _CLOSING:
            lines.append(line)
            line, columns, unit = "", 0, unit.strip()
        line += unit
        columns += size
    return [*lines, line] if line else lines
