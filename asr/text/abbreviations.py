"""Abbreviations with a full stop: what they stand for, and where they do not end a sentence."""

from __future__ import annotations

from typing import Final

WITH_STOP: Final = {  # spelt out only with a full stop: without it they are words or initials
    "prof": "professor",
    "st": "saint",
    "jr": "junior",
    "sr": "senior",
}
WITH_OR_WITHOUT: Final = {
    "mr": "mister",
    "mrs": "missus",
    "dr": "doctor",
    "vs": "versus",
    "etc": "et cetera",
}
# They do not end a sentence.
# fmt: off
BEFORE_NAMES: Final = frozenset({
    *WITH_STOP, *WITH_OR_WITHOUT, "ms", "mme", "messrs", "capt", "col", "gen", "lt", "sgt", "rev",
    "hon",
}) - {"etc"}
# They do not end a sentence before a digit.
BEFORE_DIGITS: Final = frozenset({
    "no", "nos", "p", "pp", "fig", "figs", "vol", "ch", "sec",
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
})
# fmt: on


def goes_on(word: str, following: str) -> bool:
    """Return whether a word with a full stop does not end its sentence.

    following: the next character, or empty.
    """
    if word.lower() in BEFORE_NAMES:
        return True
    is_answer = word == "no"  # unlike "No. 5"
    return word.lower() in BEFORE_DIGITS and following.isdigit() and not is_answer


def parted_sign(spelling: str) -> tuple[str, str]:
    """Split a written word into itself, with the stop of an abbreviation, and the sign after it."""
    stem = spelling.rstrip(",.?")
    if stem.lower() in BEFORE_NAMES and spelling[len(stem) :].startswith("."):
        stem += "."
    return stem, spelling[len(stem) :]
