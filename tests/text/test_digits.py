"""Number words → digits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.text.digits import write_digits


def _written(text: str) -> str:
    """Return a text with its marks, with digits for the numbers in it."""
    spellings = text.split()
    words = [spelling.rstrip(",.?").lower() for spelling in spellings]
    return " ".join(filter(None, write_digits(words, spellings)))


@pytest.mark.parametrize(
    ("spoken", "wanted"),
    [
        ("I have one dog and twelve cats.", "I have one dog and 12 cats."),
        ("Twenty three people", "23 people"),
        ("two or three", "two or three"),
        ("one hundred and five miles", "105 miles"),
        ("two thousand and six", "2006"),
        ("two thousand six hundred and seven", "2607"),
        ("seven hundred thousand", "700,000"),
        ("one million two hundred thousand", "1,200,000"),
        ("two million people", "2 million people"),
        ("three point one four", "3.14"),
        ("two point five million", "2.5 million"),
        ("a hundred", "a hundred"),
        ("hundreds of thousands", "hundreds of thousands"),
        ("nineteen eighty four", "1984"),
        ("nineteen oh five", "1905"),
        ("twenty twenty four", "2024"),
        ("eighteen hundred", "1800"),
        ("ten thirty", "10:30"),
        ("ten oh five", "10:05"),
        ("half past ten", "half past 10"),
        ("the twenty first century", "the 21st century"),
        ("the first time", "the first time"),
        ("the eleventh of May", "the 11th of May"),
        ("the one hundred and twelfth", "the 112th"),
        ("the thousandth", "the thousandth"),
        ("five dollars", "$5"),
        ("twenty percent,", "20%,"),
        ("five five five oh one two", "555012"),
        ("Twenty, thirty, forty.", "20, 30, 40."),
        ("thirty. Two men", "30. Two men"),
        ("between ten and twenty", "between 10 and 20"),
        ("five and twenty", "five and 20"),
        ("twenty five thirty", "25 30"),
        ("no one", "no one"),
        ("a million five hundred thousand dollars", "$1,500,000"),
        ("a hundred and fifty people", "150 people"),
        ("a hundred and fiftieth birthday", "a 150th birthday"),
        ("a million dollars", "a million dollars"),
        ("a thousand and one nights", "1001 nights"),
        ("at one point five men", "at one point five men"),
        ("at one point five percent", "at 1.5%"),
        ("at one point twelve men", "at one point 12 men"),
        ("a thirty second timer", "a 30 second timer"),
        ("the thirty second floor", "the 32nd floor"),
        ("oh oh oh what", "oh oh oh what"),
        ("oh oh seven", "007"),
        ("fifteen twenty minutes", "15 20 minutes"),
        ("ten twenty years ago", "10 20 years ago"),
        ("one millionth of", "one millionth of"),
        ("one hundredth", "one hundredth"),
        ("", ""),
    ],
)
def test_numbers_are_written_in_digits(spoken: str, wanted: str) -> None:
    assert _written(spoken) == wanted


# fmt: off
UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SOME = ["one", "ten", "twenty", "hundred", "thousand", "and", "oh", "point", "fifth", "cat"]
# fmt: on


def _spoken(value: int) -> str:
    """Return the words of a number below a million."""
    if value < 20:
        return UNITS[value]
    if value < 100:
        return TENS[value // 10] + (f" {UNITS[value % 10]}" if value % 10 else "")
    if value < 1000:
        rest = f" and {_spoken(value % 100)}" if value % 100 else ""
        return f"{UNITS[value // 100]} hundred{rest}"
    rest = value % 1000
    between = "" if not rest else " and " if rest < 100 else " "
    return f"{_spoken(value // 1000)} thousand{between}{_spoken(rest) if rest else ''}"


@given(st.integers(10, 999_999))
def test_a_cardinal_is_read_back(value: int) -> None:
    assert _written(_spoken(value)).replace(",", "") == str(value)


@given(st.lists(st.sampled_from(SOME)))
def test_a_word_after_the_first_of_a_number_has_no_spelling(words: list[str]) -> None:
    written = write_digits(words, words)

    assert len(written) == len(words)
    assert not words or written[0]
    assert all(spelling in (word, "") or any(map(str.isdigit, spelling))
               for word, spelling in zip(words, written, strict=True))  # fmt: skip
