"""Normalisation of English transcripts for training and scoring, to ``[a-z' ]``."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from asr.text.abbreviations import WITH_OR_WITHOUT, WITH_STOP

_LONGEST_NUMBER: Final = 15  # digits; longer numbers are spelt digit by digit
_CURRENCIES: Final = {  # sign: singular, plural, hundredth singular, hundredth plural
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_SCALES: Final = {"k": "thousand", "m": "million", "bn": "billion", "tn": "trillion"}
_SIGNS: Final = {
    "&": " and ",
    "%": " percent ",
    "@": " at ",
    "+": " plus ",
    "=": " equals ",
    "°c": " degrees celsius ",
    "°f": " degrees fahrenheit ",
    "°": " degrees ",
    "\N{MINUS SIGN}": " minus ",
}
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

# Thousands have commas, or as in India 1,00,000.
_NUMBER: Final = r"(?:\d{1,2}(?:,\d{2})+,\d{3}|\d+(?:,\d{3})*)(?:\.\d+)?"
_MONEY: Final = re.compile(
    rf"([$£€¥₹])\s?({_NUMBER})(?:[\s-]+(hundred|thousand|million|billion|trillion)\b|(k|m|bn|tn)\b)?"
)
_MONEY_RANGE: Final = re.compile(r"([$£€¥₹])\s?(\d+(?:,\d{3})*)\s?[\N{EN DASH}-]\s?[$£€¥₹]?(?=\d)")
_LESS_THAN_ONE: Final = re.compile(r"(?<![\w.,])\.(\d+)")  # .300
_MONEY_LESS_THAN_ONE: Final = re.compile(r"([$£€¥₹]\s?)(?=\.\d)")  # $.99
# 10 000: the spaces of an ordinary text only before 000.
_SPACED: Final = re.compile(
    r"(?<![\d.,])(\d{1,3})((?:[\N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}]\d{3})+"
    r"|(?: \d{3})* 000)(?![\d.,]\d|\d)"
)
_MONEY_BEHIND: Final = re.compile(rf"({_NUMBER})\s?([€£¥₹])")
_CENTS: Final = re.compile(r"(\d+)\s?¢")
_TIME: Final = re.compile(r"\b(\d{1,2}):([0-5]\d)(?:\s?([ap])\.?\s?m\b\.?)?(?![\d:])")
_HOUR: Final = re.compile(r"\b(\d{1,2})\s?([ap])\.?\s?m\b\.?")
_FRACTION: Final = re.compile(
    r"(?:(?<![\d/.,])(\d+)\s+)?(?<![\d/.,])(\d{1,2})/(\d{1,3})(?![\d/.,])"
)
_HALVES: Final = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_RANGE: Final = re.compile(r"(?<=\d)\s?\N{EN DASH}\s?(?=\d)")
_NUMERO: Final = re.compile(r"(?:\bN[Oo]\.\s?|\bno\.|#)(?=\d)")  # but "I said no. 5 came"
_STREET: Final = re.compile(r"(?<=\w )St\.(?=\s+[a-z]|[,;:!?)]|\s*$)")  # else it is Saint
_POWERS: Final = str.maketrans({"²": " squared ", "³": " cubed "})
_SLASH: Final = str.maketrans({"\N{FRACTION SLASH}": "/"})
_MARKUP: Final = re.compile(r"</?[A-Za-z][^<>]*>|\[[^\[\]]*\]")  # <i>, [laughter]
_ORDINAL: Final = re.compile(r"(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b")
_DECADE: Final = re.compile(r"\b(\d{3}0|\d0)'?s\b")
_PLAIN: Final = re.compile(_NUMBER)
_DIGIT: Final = re.compile(r"\d")
_MANY_DIGITS: Final = re.compile(r"(\.?)(?<!\d)(\d{40,})")  # slow to search for all that follows
_ABBREVIATION: Final = re.compile(rf"\b({'|'.join(WITH_STOP)})\.")
# 'word' in single quotes. Quotes around a phrase are ambiguous ('tis … dogs') and are kept.
_QUOTED_WORD: Final = re.compile(r"(?<![a-z'])'([a-z]+(?:'[a-z]+)*)'(?![a-z'])")


def normalize(text: str) -> str:
    """Return `text` as lower-case a to z, apostrophes and single spaces, as LibriSpeech writes it.

    Accents are folded; digits are spelt out (see `spell_number`; years, decades, times, fractions
    and ordinals included); ``$5``, ``50%``, ``&`` and ``Mr.`` become words; tags and what stands in
    brackets are dropped; an apostrophe stays inside or at the edge of a word ("it's", "'tis",
    "dogs'"), not around one; hyphens, dashes and all other signs become spaces. Letters of other
    scripts are dropped. The function is idempotent.
    """
    text = _STREET.sub("street", _MARKUP.sub(" ", text))
    if _DIGIT.search(text):
        text = _SPACED.sub(lambda found: re.sub(r"\s", "", found[0]), text)
        text = _NUMERO.sub(" number ", text)
    text = _fold(text)
    text = _ABBREVIATION.sub(lambda found: f" {WITH_STOP[found[1]]} ", text)
    if _DIGIT.search(text):
        text = _spell_digits(text)
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    text = re.sub(r"[^a-z' ]|'{2,}", " ", text)
    text = _QUOTED_WORD.sub(r" \1 ", text)
    words = [WITH_OR_WITHOUT.get(word, word) for word in text.split() if word != "'"]
    return re.sub(r"(?<=[a-z]) 's\b", "'s", " ".join(words))  # "1984's" was split before its 's


def _spell_digits(text: str) -> str:
    """Replace everything with digits by words; text: folded."""
    text = _MANY_DIGITS.sub(
        lambda found: f"{' point' * len(found[1])} {_digit_by_digit(found[2])} ", text
    )
    text = _MONEY_LESS_THAN_ONE.sub(r"\g<1>0", text)
    text = _LESS_THAN_ONE.sub(lambda found: f" point {_digit_by_digit(found[1])} ", text)
    text = _RANGE.sub(" to ", _MONEY_RANGE.sub(r"\2 to \1", text))
    text = _MONEY.sub(_expand_money, text)
    text = _MONEY_BEHIND.sub(lambda found: _amount(found[2], found[1], None), text)
    text = _CENTS.sub(lambda found: f" {_cardinal(found[1])} cent{'s' * (found[1] != '1')} ", text)
    text = _TIME.sub(_expand_time, text)
    text = _HOUR.sub(lambda found: f" {_cardinal(found[1])} {found[2]} m ", text)
    text = _FRACTION.sub(_expand_fraction, text)
    text = _ORDINAL.sub(lambda found: f" {_ordinal(_digits(found[1]))} ", text)
    text = _DECADE.sub(lambda found: f" {_plural(_year_or_number(found[1]))} ", text)
    return _PLAIN.sub(lambda found: f" {_year_or_number(found[0])} ", text)


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
    text = "".join(_spaced_fraction(each) for each in text.translate(_POWERS))
    text = _OPENING_QUOTE.sub(" ", text).translate(_FOLDS)  # before U+00B4 decomposes into a space
    text = unicodedata.normalize("NFKD", text).lower().translate(_FOLDS)
    # Accents and zero-width characters (soft hyphens, joiners) do not separate words.
    return "".join(c for c in text if unicodedata.category(c) not in ("Mn", "Cf"))


def _digits(number: str) -> str:
    return number.replace(",", "")


def _spaced_fraction(character: str) -> str:
    """Return ½ as " 1/2 ": decomposed, "2½" would become 21⁄2; other characters as they are."""
    if not unicodedata.decomposition(character).startswith("<fraction>"):
        return character
    return f" {unicodedata.normalize('NFKD', character).translate(_SLASH)} "


@lru_cache(maxsize=4096)
def _spelt(value: int, form: str = "cardinal") -> str:
    """Spell a number without "and", hyphens and commas; form: as in num2words."""
    from num2words import num2words

    words = re.sub(r"[-,]|\band\b", " ", num2words(value, to=form))
    return " ".join(words.split())


def _digit_by_digit(digits: str) -> str:
    return " ".join(_spelt(int(digit)) for digit in digits)


def _cardinal(digits: str) -> str:
    if len(digits) > _LONGEST_NUMBER or (len(digits) > 1 and digits[0] == "0"):
        return _digit_by_digit(digits)
    return _spelt(int(digits))


def _ordinal(digits: str) -> str:
    if len(digits) > _LONGEST_NUMBER:
        return _digit_by_digit(digits)
    return _spelt(int(digits), "ordinal")


def _plural(words: str) -> str:
    """Return the plural of a number: "nineteen nineties", "twenties", "eighteen hundreds"."""
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _year_or_number(number: str) -> str:
    """Spell four digits from 1100 to 1999 and 2010 to 2099 as a year, in pairs."""
    is_year = len(number) == 4 and number.isdigit()
    if not (is_year and (1100 <= int(number) < 2000 or 2010 <= int(number) < 2100)):
        return spell_number(number)
    return _spelt(int(number), "year")


def _expand_time(found: re.Match[str]) -> str:
    """Spell 3:05 as "three oh five", 10:00 as "ten o'clock", 3:30 pm as "three thirty p m"."""
    hour, minutes, half = found.groups()
    if int(hour) > 24:
        return f" {_cardinal(hour)} {_cardinal(minutes)} "
    words = [_spelt(int(hour))]
    if minutes != "00":
        words.append(f"oh {_spelt(int(minutes))}" if minutes[0] == "0" else _spelt(int(minutes)))
    elif not half:
        words.append("hundred" if int(hour) > 12 else "o'clock")
    return f" {' '.join([*words, half, 'm'] if half else words)} "


def _expand_fraction(found: re.Match[str]) -> str:
    """Spell 3/4 as "three quarters", 2 1/2 as "two and a half"; others remain two numbers."""
    whole, above, below = found[1], int(found[2]), int(found[3])
    if (above, below) == (9, 11):  # the date
        return " nine eleven "
    if not 0 < above < below or (below > 20 and below % 100):
        return found[0].replace("/", " ")
    one, several = _HALVES.get(below, ("", ""))
    one = one or _spelt(below, "ordinal")
    unit = one if above == 1 else several or f"{one}s"
    if not whole:
        return f" {_spelt(above)} {unit} "
    return f" {_cardinal(whole)} and {'a' if above == 1 else _spelt(above)} {unit} "


def _expand_money(found: re.Match[str]) -> str:
    sign, number, scale, letters = found.groups()
    return _amount(sign, number, _SCALES[letters] if letters else scale)


def _amount(sign: str, number: str, scale: str | None) -> str:
    """Spell an amount of money; scale: such as "million"."""
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
