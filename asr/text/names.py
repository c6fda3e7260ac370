"""Names with capitals, as they are given, in texts that are written from bare words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from asr.text.abbreviations import parted_sign
from asr.text.normalize import normalize

_POSSESSIVE: Final = "'s"


class Names:
    """Words and phrases whose capitals are known: "Fuchs", "McDonald", "University of Ithaca"."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        """Take names; those without capitals, or that are spoken as other words, change nothing."""
        found = (_name(each) for each in given if each != each.lower())
        self._names: Mapping[tuple[str, ...], list[str]] = {
            words: parts for words, parts in found if len(words) == len(parts)
        }
        self._sizes = sorted({len(words) for words in self._names}, reverse=True)

    def written(self, words: Sequence[str], spellings: Sequence[str]) -> tuple[str, ...]:
        """Return the spellings of bare words, with the names in them as they were given.

        spellings: one for each word, with the sign after it, which is kept. The words of a name
        that have no capital keep their spelling too.
        """
        found = list(spellings)
        place = 0
        while place < len(words):
            size = next((n for n in self._sizes if self._at(words, place, n)), 0)
            for at, part in enumerate(self._at(words, place, size) if size else (), place):
                if part != part.lower():
                    found[at] = _with_sign(part, spellings[at])
            place += size or 1
        return tuple(found)

    def _at(self, words: Sequence[str], place: int, size: int) -> list[str]:
        """Return the parts of the name of `size` words that begins at a place, or none."""
        inside = tuple(words[place : place + size])
        if parts := self._names.get(inside):
            return parts
        *first, last = inside
        stem = last.removesuffix(_POSSESSIVE)
        parts = self._names.get((*first, stem), []) if stem != last else []
        return [*parts[:-1], parts[-1] + _POSSESSIVE] if parts else []


def _name(given: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the bare words of a name, and its parts as they are written."""
    parts = given.replace("-", " ").split()
    return tuple(normalize(given).split()), parts


def _with_sign(part: str, spelling: str) -> str:
    _, sign = parted_sign(spelling)
    return part if part.endswith(sign) else part + sign
