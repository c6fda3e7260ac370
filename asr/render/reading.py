"""A reading of a page as text: marks for each kind of miscue, in colour on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from asr.reading import Reading, ReadStatus, ReadWord

# Status → colour (ANSI).
_COLOURS: Final = {
    ReadStatus.RIGHT: "",
    ReadStatus.MISREAD: "31",  # red
    ReadStatus.SKIPPED: "35",  # magenta
    ReadStatus.REPEATED: "33",  # yellow
    ReadStatus.ADDED: "36",  # cyan
}
_PAUSE: Final = "…"
_UNKNOWN: Final = "?"  # nothing was recognised in its place
_LEGEND: Final = "word [misread as]  (skipped)  ~repeated  +added  … hesitation"


def to_text(reading: Reading, colour: bool) -> str:
    """Return the page with marks, and its figures, as lines; colour: with ANSI colours."""
    hesitant = {each.word for each in reading.hesitations}
    lines = []
    for begins, words in lines_of(reading):
        marked = [
            f"{_PAUSE} " * (index in hesitant) + _painted(word, colour) for index, word in words
        ]
        lines += [""] * begins + [" ".join(marked)]
    return "\n".join([*lines, "", *_figures(reading), _LEGEND]) + "\n"


def lines_of(reading: Reading) -> Iterator[tuple[bool, list[tuple[int, ReadWord]]]]:
    """Yield the words of each line with their indices, and whether a paragraph begins with it.

    One begins after lines without words.
    """
    last: int | None = None
    for line, words in groupby(enumerate(reading.words), lambda each: each[1].line):
        yield last is not None and line > last + 1, [*words]
        last = line


def counts(reading: Reading) -> list[tuple[str, int]]:
    """Return the number of words of each status, and of hesitations, with their names."""
    found = [(status.value, reading.count(status)) for status in ReadStatus]
    return [*found, ("hesitations", len(reading.hesitations))]


def _figures(reading: Reading) -> list[str]:
    return [
        ", ".join(f"{number} {name}" for name, number in counts(reading)),
        f"{100 * reading.accuracy:.0f} % right of the {reading.reached} words reached, "
        f"{reading.words_per_minute:.0f} words a minute, "
        f"{reading.right_words_per_minute:.0f} of them right",
    ]


def _painted(word: ReadWord, colour: bool) -> str:
    marked, code = _marked(word), _COLOURS[word.status]
    return f"\x1b[{code}m{marked}\x1b[0m" if colour and code else marked


def _marked(word: ReadWord) -> str:
    match word.status:
        case ReadStatus.MISREAD:
            return f"{word.text} [{word.heard or _UNKNOWN}]"
        case ReadStatus.SKIPPED:
            return f"({word.text})"
        case ReadStatus.REPEATED:
            return f"~{word.text}"
        case ReadStatus.ADDED:
            return f"+{word.text}"
    return word.text
