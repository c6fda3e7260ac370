"""Roman numerals after words such as Chapter, and after the names of kings, popes and queens."""

from __future__ import annotations

import re
from typing import Final

_VALUES: Final = {"I": 1, "V": 5, "X": 10, "L": 50}
_NUMERAL: Final = r"(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b"
_PARTS: Final = "Chapter|War|Part|Act|Scene|Volume|Book|Section|Canto"
_NAMES: Final = (
    "Alexander|Benedict|Catherine|Charles|Christian|Edward|Elizabeth|Ferdinand|Francis|Frederick|"
    "George|Gregory|Gustav|Henry|Innocent|Ivan|James|John|Leo|Louis|Mary|Napoleon|Nicholas|Otto|"
    "Paul|Peter|Philip|Pius|Rameses|Ramses|Richard|Urban|Wilhelm|William"
)
_OF_A_PART: Final = re.compile(rf"\b((?:{_PARTS}|{_PARTS.upper()})\s+)({_NUMERAL})")
# Not "I": "as John I" is no king.
_OF_A_RULER: Final = re.compile(rf"\b((?:{_NAMES})\s+)(?!I\b)({_NUMERAL})")


def with_roman_numerals(text: str) -> str:
    """Return a text with "Chapter 4" for "Chapter IV", and "Henry the-8th" for "Henry VIII".

    The number of words between spaces remains.
    """
    text = _OF_A_PART.sub(lambda found: f"{found[1]}{_value(found[2])}", text)
    return _OF_A_RULER.sub(lambda found: f"{found[1]}the-{_value(found[2])}th", text)


def _value(numeral: str) -> int:
    values = [_VALUES[each] for each in numeral]
    following = [*values[1:], 0]
    return sum(-one if one < two else one for one, two in zip(values, following, strict=True))
