"""Normalisation of English transcripts for training and scoring, to ``[a-z' ]``."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# fmt: off
_UNITS: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)
# fmt: on
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final = ("", "thousand", "million", "billion", "trillion")
_LONGEST_NUMBER: Final = 15  # digits that the scales cover; longer numbers are spelt digit by digit
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_CURRENCIES: Final = {  # sign: singular, plural, hundredth singular, hundredth plural
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
}
_WITH_STOP: Final = {  # only with a full stop: without it they are words, endings or initials
    "prof": "professor",
    "st": "saint",
    "jr": "junior",
    "sr": "senior",
}
_WITH_OR_WITHOUT: Final = {
    "mr": "mister",
    "mrs": "missus",
    "dr": "doctor",
    "vs": "versus",
    "etc": "et cetera",
}
_SIGNS: Final = {"&": " and ", "%": " percent ", "@": " at ", "+": " plus ", "=": " equals "}
# Letters that Unicode does not decompose, and variants of the apostrophe.
_FOLDS: Final = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "ð": "d",
        "þ": "th",
        "đ": "d",
        "ł": "l",
        "\u0131": "i",
    }
    | dict.fromkeys("\u2018\u2019\u201b\u02bc\u02b9\u2032\u0060\u00b4\uff07", "'")
)
# The curly opening quote is an apostrophe only if the beginning of a word is elided.
_OPENING_QUOTE: Final = re.compile("(?<!\\w)\u2018(?!(?:tis|twas|em|til|cause|bout)\\b)", re.I)

_NUMBER: Final = r"\d+(?:,\d{3})*(?:\.\d+)?"
_MONEY: Final = re.compile(
    rf"([$£€])\s?({_NUMBER})(?:\s+(hundred|thousand|million|billion|trillion)\b)?"
)
_ORDINAL: Final = re.compile(r"(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b")
_DECADE: Final = re.compile(r"\b(\d{3}0|\d0)'?s\b")
_PLAIN: Final = re.compile(_NUMBER)
_ABBREVIATION: Final = re.compile(rf"\b({'|'.join(_WITH_STOP)})\.")
# 'word' in single quotes. Quotes around a phrase are ambiguous ('tis … dogs') and are kept.
_QUOTED_WORD: Final = re.compile(r"(?<![a-z'])'([a-z]+(?:'[a-z]+)*)'(?![a-z'])")


def normalize(text: str) -> str:
    """Return `text` as lower-case a to z, apostrophes and single spaces, as LibriSpeech writes it.

    Accents are folded; digits are spelt out (see `spell_number`, years and decades included);
    ``$5``, ``50%``, ``&`` and ``Mr.`` become words; an apostrophe stays inside or at the edge of a
    word ("it's", "'tis", "dogs'"), not around one; hyphens, dashes and all other signs become
    spaces. Letters of other scripts are dropped. The function is idempotent.
    """
    text = _fold(text)
    text = _ABBREVIATION.sub(lambda found: f" {_WITH_STOP[found[1]]} ", text)
    text = _MONEY.sub(_expand_money, text)
    text = _ORDINAL.sub(lambda found: f" {_ordinal(_digits(found[1]))} ", text)
    text = _DECADE.sub(lambda found: f" {_plural(_year_or_number(found[1]))} ", text)
    text = _PLAIN.sub(lambda found: f" {_year_or_number(found[0])} ", text)
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = re.sub(r"[^a-z' ]|'{2,}", " ", text)
    text = _QUOTED_WORD.sub(r" \1 ", text)
    words = [_WITH_OR_WITHOUT.get(word, word) for word in text.split() if word != "'"]
    return re.sub(r"(?<=[a-z]) 's\b", "'s", " ".join(words))  # "1984's" was split before its 's


def spell_number(number: str) -> str:
    """Spell a number written in digits, as in "1,234.05".

    The result is "one thousand two hundred thirty four point zero five", without "and" and hyphens.
    Numbers of more than 15 digits, or with a leading zero as in "007", are spelt digit by digit.
    number: digits, optionally with commas at the thousands and a decimal point.
    """
    whole, point, fraction = number.replace(",", "").partition(".")
    words = _cardinal(whole)
    return f"{words} point {_digit_by_digit(fraction)}" if point else words


def _fold(text: str) -> str:
    """Return the text in lower case, with ASCII base letters and plain apostrophes."""
    if text.isascii():  # nothing to decompose
        return text.lower().translate(_FOLDS)
    text = _OPENING_QUOTE.sub(" ", text).translate(_FOLDS)  # before U+00B4 decomposes into a space
    text = unicodedata.normalize("NFKD", text).lower().translate(_FOLDS)
    # Accents and zero-width characters (soft hyphens, joiners) do not separate words.
    return "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf"))


def _digits(number: str) -> str:
    return number.replace(",", "")


def _digit_by_digit(digits: str) -> str:
    return " ".join(_UNITS[int(digit)] for digit in digits)


def _cardinal(digits: str) -> str:
    if len(digits) > _LONGEST_NUMBER or (len(digits) > 1 and digits[0] == "0"):
        return _digit_by_digit(digits)
    words: list[str] = []
    value, scale = int(digits), 0
    if value == 0:
        return _UNITS[0]
    while value:
        value, group = divmod(value, 1000)
        if group:
            words.insert(0, f"{_below_thousand(group)} {_SCALES[scale]}".strip())
        scale += 1
    return " ".join(words)


def _below_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    words = [_UNITS[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10 - 2])
        rest %= 10
    if rest:
        words.append(_UNITS[rest])
    return " ".join(words)


def _ordinal(digits: str) -> str:
    *first, last = _cardinal(digits).split()
    if last in _ORDINALS:
        last = _ORDINALS[last]
    else:
        last = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return " ".join([*first, last])


def _plural(words: str) -> str:
    """Return the plural of a number: "nineteen nineties", "twenties", "eighteen hundreds"."""
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _year_or_number(number: str) -> str:
    """Spell four digits from 1100 to 1999 and 2010 to 2099 as a year, in pairs."""
    is_year = len(number) == 4 and number.isdigit()
    if not (is_year and (1100 <= int(number) < 2000 or 2010 <= int(number) < 2100)):
        return spell_number(number)
    century, rest = _cardinal(number[:2]), number[2:]
    if rest == "00":
        return f"{century} hundred"
    return f"{century} oh {_UNITS[int(rest)]}" if rest[0] == "0" else f"{century} {_cardinal(rest)}"


def _expand_money(found: re.Match[str]) -> str:
    sign, number, scale = found.groups()
    one, several, cent, cents = _CURRENCIES[sign]
    whole, _, fraction = number.partition(".")
    if scale or len(fraction) not in (0, 2):
        return f" {spell_number(number)} {scale or ''} {several} "
    parts = (
        []
        if not whole.strip("0") and fraction.strip("0")
        else [f"{spell_number(whole)} {one if whole == '1' else several}"]
    )
    if fraction.strip("0"):
        parts.append(f"{_cardinal(fraction.lstrip('0'))} {cent if fraction == '01' else cents}")
    return f" {' '.join(parts)} "
