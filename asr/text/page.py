"""The words of a page of text, as printed and as they are read aloud."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from asr.text.normalize import normalize

STOPS: Final = frozenset(",.;:!?…—–-)\"'”’")  # signs at which a reader may pause


class PageWord(NamedTuple):
    """A word of a page.

    text: as printed, with its punctuation. spoken: normalised, several words for "$5". line:
    number of its line, from 0. stops: whether punctuation follows it.
    """

    text: str
    spoken: str
    line: int
    stops: bool


def page_words(lines: Iterable[str]) -> list[PageWord]:
    """Return the words of a page; signs without letters or digits join the word before them."""
    words: list[PageWord] = []
    for number, line in enumerate(lines):
        for text in line.split():
            spoken = normalize(text)
            if spoken:
                words.append(PageWord(text, spoken, number, text[-1] in STOPS))
            elif words:
                last = words[-1]
                words[-1] = last._replace(text=f"{last.text} {text}", stops=True)
    return words
