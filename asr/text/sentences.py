"""Sentence segmentation by punctuation and capital letters."""

from __future__ import annotations

import re
from typing import Final

from asr.text.abbreviations import goes_on

_BOUNDARY: Final = re.compile(
    r"""
    (?<![.!?…]) (?P<mark>[.!?…]+) (?P<quote>(?:["'”’)\]] | \s?»)*) \s+
    (?=(?:["'“‘(\[¿¡] | «\s?)*(?P<next>\w | …))
    """,
    re.VERBOSE,
)
_FULL_WIDTH: Final = re.compile(r"""[。！？]+["'”’』」）]*\s*(?=\S)""")
_BLANK_LINES: Final = re.compile(r"(\n[^\S\n]*\n\s*)")
_WORD_START: Final = re.compile(r"\w*")


def split_paragraphs(text: str) -> tuple[list[str], list[str]]:
    """Split a text at its blank lines; return its paragraphs, and what separates each two."""
    parts = _BLANK_LINES.split(text)
    return parts[::2], parts[1::2]


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences; 。！？ end one anywhere.

    Before a lower-case letter only ! and ? end a sentence, except before a closing quote. The full
    stop of an abbreviation or an initial does not end a sentence.
    """
    sentences: list[str] = []
    start = 0
    for match in _FULL_WIDTH.finditer(text):
        sentences += _split(text[start : match.end()])
        start = match.end()
    return sentences + _split(text[start:])


def _split(text: str) -> list[str]:
    """Split a text at . ! ? and … before white space."""
    sentences, start = [], 0
    for match in _BOUNDARY.finditer(text):
        if not _goes_on(text[start : match.start()], match):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    return [*sentences, text[start:].strip()]


def _goes_on(before: str, match: re.Match[str]) -> bool:
    """Return whether a sentence continues after a possible end."""
    if match["next"].islower() and (match["quote"] or match["mark"].strip(".…") == ""):
        return True
    if match["mark"] != ".":
        return False
    word = _last_word(before)
    initial = len(word) == 1 and word.isupper() and word != "I"
    return initial or goes_on(word, match["next"])


def _last_word(text: str) -> str:
    """Return the letters and digits at the end of a text, in linear time, unlike a search."""
    found = _WORD_START.match(text[::-1])
    return found[0][::-1] if found else ""
