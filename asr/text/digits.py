"""Number words → digits, as people write them: "twenty three" → "23"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

# fmt: off
_UNITS: Final = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9,
}
_TEENS: Final = {
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}
_TENS: Final = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}
# fmt: on
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_IRREGULAR: Final = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
_SIGNS: Final = {"dollar": "$", "dollars": "$", "euro": "€", "euros": "€", "percent": "%"}
_LEAST: Final = 10  # smaller numbers are written as words, except with a sign or a fraction
_LEAST_GROUPED: Final = 10_000  # larger numbers have commas
_DIGITS: Final = 3  # spoken in a row, at least, they are one number, as in a telephone number
_LAST_HOUR, _LAST_MINUTE = 12, 59
_FIRST_CENTURY, _LAST_CENTURY = 13, 20  # of years that are read in two halves
_MARKS: Final = (",", ".", "?")
# After these two numbers are an estimate, no year or time: "ten twenty years ago".
# fmt: off
_COUNTED: Final = frozenset({
    "seconds", "minutes", "hours", "days", "weeks", "months", "years", "times", "people", "men",
    "women", "children", "inches", "feet", "yards", "miles", "meters", "metres", "pounds",
    "percent", "dollars", "euros",
})
# fmt: on


class _Number(NamedTuple):
    """A number in the words: `size` of them, and what is written."""

    size: int
    text: str


def write_digits(words: Sequence[str], spellings: Sequence[str]) -> list[str]:
    """Return the spellings of words, with digits for the numbers among them.

    words: bare. spellings: each as it is written, with the mark after it. The first word of a
    number gets all of it, the others an empty spelling. Numbers below ten stay words, as is usual
    in print.
    """
    written = list(spellings)
    place = 0
    while place < len(words):
        end = next((at for at in range(place, len(words)) if _mark(spellings[at])), len(words) - 1)
        number = _number(words[place : end + 1], words[place - 1] if place else "")
        if number is None:
            place += 1
            continue
        last = place + number.size - 1
        written[place : last + 1] = [number.text + _mark(spellings[last])] + [""] * (last - place)
        place = last + 1
    return written


def _mark(spelling: str) -> str:
    return spelling[-1] if spelling.endswith(_MARKS) else ""


def _number(words: Sequence[str], before: str) -> _Number | None:
    """Return the number with which the words begin, if it is one that is written in digits.

    before: the word before them, or empty.
    """
    if words[0] == "a":
        return _with_article(words)
    is_seconds = before == "a" and words[1:2] == ["second"]  # "a thirty second timer"
    readers = (_digit_by_digit, _time, _year, _fraction, _ordinal, _cardinal)
    for read in readers[-1:] if is_seconds else readers:
        found = read(words)
        if found is not None:
            is_idiom = before == "at" and found.size == 3 and words[:2] == ["one", "point"]
            return None if is_idiom else found
    return None


def _with_article(words: Sequence[str]) -> _Number | None:
    """Read "a hundred and fifty" as 150; "a hundred" alone stays as it is."""
    if not _goes_on(words[1:]):
        return None
    spoken = ["one", *words[1:]]
    whole, _ = _whole(spoken)
    ordinal = _ordinal(spoken)
    if ordinal is not None and ordinal.size > max(2, whole):
        return ordinal._replace(text=f"a {ordinal.text}")
    return _cardinal(spoken) if whole > 2 else None


def _digit_by_digit(words: Sequence[str]) -> _Number | None:
    digits = ""
    for word in words:
        if word not in _UNITS and word != "oh":
            break
        digits += str(_UNITS.get(word, 0))
    has_digit = any(word != "oh" for word in words[: len(digits)])
    return _Number(len(digits), digits) if has_digit and len(digits) >= _DIGITS else None


def _time(words: Sequence[str]) -> _Number | None:
    """Read "ten thirty" as 10:30."""
    size, hour = _below_hundred(words)
    minutes, minute = _half(words[size:])
    if size != 1 or not 1 <= hour <= _LAST_HOUR or not minutes or minute > _LAST_MINUTE:
        return None
    is_time = not _is_no_date(words[size + minutes :])
    return _Number(size + minutes, f"{hour}:{minute:02}") if is_time else None


def _year(words: Sequence[str]) -> _Number | None:
    """Read "nineteen eighty four" as 1984."""
    size, century = _below_hundred(words)
    rest, year = _half(words[size:])
    if size != 1 or not _FIRST_CENTURY <= century <= _LAST_CENTURY or not rest:
        return None
    is_year = not _is_no_date(words[size + rest :])
    return _Number(size + rest, f"{century}{year:02}") if is_year else None


def _half(words: Sequence[str]) -> tuple[int, int]:
    """Return words and value of the second half of a year or a time: "oh five", "eighty four"."""
    if len(words) > 1 and words[0] == "oh" and words[1] in _UNITS:
        return 2, _UNITS[words[1]]
    size, value = _below_hundred(words)
    return (size, value) if value >= _LEAST else (0, 0)


def _goes_on(words: Sequence[str]) -> bool:
    """Return whether a number does not end before these words."""
    return bool(words) and (words[0] == "hundred" or words[0] in _SCALES)


def _is_no_date(words: Sequence[str]) -> bool:
    """Return whether two numbers before these words are no year and no time."""
    return _goes_on(words) or (bool(words) and words[0] in _COUNTED)


def _fraction(words: Sequence[str]) -> _Number | None:
    """Read "three point one four" as 3.14."""
    size, value = _whole(words)
    digits = ""
    if size and words[size : size + 1] == ["point"]:
        for word in words[size + 1 :]:
            if word not in _UNITS:
                break
            digits += str(_UNITS[word])
    if not digits:
        return None
    size += 1 + len(digits)
    scale = words[size] if words[size : size + 1] and words[size] in _SCALES else ""
    text = f"{value}.{digits} {scale}".rstrip()
    return _signed(words, size + bool(scale), text)


def _ordinal(words: Sequence[str]) -> _Number | None:
    """Read "twenty first" as 21st."""
    for size in range(1, len(words) + 1):
        cardinal = _cardinal_of(words[size - 1])
        if cardinal is None:
            continue
        whole, value = _whole([*words[: size - 1], cardinal])
        is_share = size == 2 and words[0] == "one"  # one millionth
        if whole != size or value < _LEAST or is_share:
            return None
        return _Number(size, f"{_grouped(value)}{_ending(value)}")
    return None


def _cardinal_of(word: str) -> str | None:
    """Return the cardinal of an ordinal number word, None for another word."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    stem = word.removesuffix("ieth") + "y" if word.endswith("ieth") else word.removesuffix("th")
    known = stem in _UNITS or stem in _TEENS or stem in _TENS or stem in _SCALES
    return stem if stem != word and (known or stem == "hundred") else None


def _ending(value: int) -> str:
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


def _cardinal(words: Sequence[str]) -> _Number | None:
    size, value = _whole(words)
    if not size:
        return None
    signed = _signed(words, size, _rounded(value))
    return signed if value >= _LEAST or signed.size > size else None


def _signed(words: Sequence[str], size: int, text: str) -> _Number:
    """Return a number with its currency or percent sign, if one follows."""
    sign = _SIGNS.get(words[size], "") if len(words) > size else ""
    if sign == "%":
        return _Number(size + 1, text + sign)
    return _Number(size + bool(sign), sign + text)


def _rounded(value: int) -> str:
    """Return digits; "2 million" for whole millions."""
    for word, scale in reversed(_SCALES.items()):
        if scale >= _SCALES["million"] and value and value % scale == 0:
            return f"{_grouped(value // scale)} {word}"
    return _grouped(value)


def _grouped(value: int) -> str:
    return f"{value:,}" if value >= _LEAST_GROUPED else str(value)


def _whole(words: Sequence[str]) -> tuple[int, int]:
    """Return words and value of the cardinal number with which the words begin; (0, 0): none."""
    size = value = 0
    least = 10**15  # the scale of the group before
    while True:
        joint = int(size > 0 and words[size : size + 1] == ["and"])
        group, group_value = _below_thousand(words[size + joint :])
        if not group or (joint and group_value >= 100):
            return size, value
        after = size + joint + group
        scale = _SCALES.get(words[after], 1) if len(words) > after else 1
        if scale >= least or (joint and (scale > 1 or least == 1)):
            return size, value
        value += group_value * scale
        size, least = after + (scale > 1), scale
        if scale == 1:
            return size, value


def _below_thousand(words: Sequence[str]) -> tuple[int, int]:
    size, value = _below_hundred(words)
    if not size or words[size : size + 1] != ["hundred"] or not value:
        return size, value
    size, value = size + 1, 100 * value
    joint = int(words[size : size + 1] == ["and"])
    rest, below = _below_hundred(words[size + joint :])
    return (size + joint + rest, value + below) if rest and below else (size, value)


def _below_hundred(words: Sequence[str]) -> tuple[int, int]:
    first = words[0] if words else ""
    if first in _TENS:
        unit = _UNITS.get(words[1], 0) if len(words) > 1 else 0
        return 1 + bool(unit), _TENS[first] + unit
    if first in _TEENS:
        return 1, _TEENS[first]
    return (1, _UNITS[first]) if first in _UNITS else (0, 0)
