"""Texts all in capitals, as in subtitles: models of translation hardly know such words."""

from __future__ import annotations

import re
from typing import Final

_I: Final = re.compile(r"\bi\b")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def is_in_capitals(text: str) -> bool:
    """Return whether a text has a word of two letters or more, and no letter in lower case."""
    return text == text.upper() != text.lower() and _WORD.search(text) is not None


def sentence_case(text: str) -> str:
    """Return an English text in capitals as a sentence; names lose theirs."""
    lowered = _I.sub("I", text.lower())
    first = next((at for at, sign in enumerate(lowered) if sign.isalpha()), 0)
    return lowered[:first] + lowered[first : first + 1].upper() + lowered[first + 1 :]
