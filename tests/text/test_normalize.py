"""Normalised text is [a-z' ], idempotent, and in the form of LibriSpeech."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.text.normalize import _spelt, normalize, spell_number

# No deadline: on a busy machine an example may be slow.
patient = settings(deadline=None)
# Combinations of rules: titles, numbers, signs and apostrophes in any order.
TRICKY = st.text(alphabet="mrsdtpc. '\u2018\u2019\"15,0$%&-_é\u00ad\u00b4/:½°€<>[]", max_size=14)


@settings(patient, max_examples=400)
@given(st.one_of(TRICKY, st.text()))
def test_output_is_clean_and_normalizing_again_changes_nothing(text: str) -> None:
    once = normalize(text)
    assert re.fullmatch(r"(?:[a-z']*[a-z][a-z']*(?: (?!$)|$))*", once)
    assert normalize(once) == once


@patient
@given(st.text(alphabet="abc yz", min_size=1))
def test_plain_words_are_kept(text: str) -> None:
    assert normalize(text.upper()) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hello,   WORLD!\n", "hello world"),
        ("It's the dogs' bowl", "it's the dogs' bowl"),
        ("\u2018I don\u2019t know,\u2019 he said", "i don't know he said"),
        ("\u2018Tis the 'best' one", "'tis the best one"),
        ("well-known \u2014 and\u2013so on", "well known and so on"),
        ("Café naïve Straße Æsop ﬁne", "cafe naive strasse aesop fine"),
        ("co\u00adoperate", "cooperate"),
        ("Mr. Smith & Mrs Jones vs. Dr. Who", "mister smith and missus jones versus doctor who"),
        ("Prof. Lee of St. John's, pens etc.", "professor lee of saint john's pens et cetera"),
        (
            "1st 2nd 3rd 12th 20th 21st 100th",
            "first second third twelfth twentieth twenty first one hundredth",
        ),
        (
            "in 1984, 1905, 1900, 2000 and 2024",
            "in nineteen eighty four nineteen oh five "
            "nineteen hundred two thousand and twenty twenty four",
        ),
        ("1984's plan", "nineteen eighty four's plan"),
        ("the 1990s and the '20s", "the nineteen nineties and the twenties"),
        ("$5, $1, $1.50, $0.01", "five dollars one dollar one dollar fifty cents one cent"),
        ("£3.5 million", "three point five million pounds"),
        ("50% of 3.14", "fifty percent of three point one four"),
        ("10:30", "ten thirty"),
        ("agent 007", "agent zero zero seven"),
        ("日本", ""),
        ("", ""),
    ],
)
def test_examples(text: str, wanted: str) -> None:
    assert normalize(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1/2 cup", "one half cup"),
        ("3/4 of it", "three quarters of it"),
        ("2 1/2 hours", "two and a half hours"),
        ("2½ hours", "two and a half hours"),
        ("½", "one half"),
        ("5/16", "five sixteenths"),
        ("24/7", "twenty four seven"),
        ("1/2/2003", "one two two thousand three"),
        ("7/8", "seven eighths"),
        ("1 3/4 miles", "one and three quarters miles"),
        ("3:30 pm", "three thirty p m"),
        ("10:00", "ten o'clock"),
        ("3:05", "three oh five"),
        ("15:00", "fifteen hundred"),
        ("at 5 p.m.", "at five p m"),
        ("10am", "ten a m"),
        ("12:45 a.m. sharp", "twelve forty five a m sharp"),
        ("John 3:16", "john three sixteen"),
        ("$1.5m", "one point five million dollars"),
        ("$3bn", "three billion dollars"),
        ("5€", "five euros"),
        ("¥500", "five hundred yen"),
        ("₹20", "twenty rupees"),
        ("50¢", "fifty cents"),
        ("1¢", "one cent"),
        ("$2 million", "two million dollars"),
        ("<i>Hello</i> [laughs] there", "hello there"),
        ("[door slams]", ""),
        ("1914\N{EN DASH}18", "nineteen fourteen to eighteen"),
        ("pages 5\N{EN DASH}10", "pages five to ten"),
        ("No. 5", "number five"),
        ("#7", "number seven"),
        ("20°C", "twenty degrees celsius"),
        ("70°F", "seventy degrees fahrenheit"),
        ("90°", "ninety degrees"),
        ("\N{MINUS SIGN}5", "minus five"),
        ("1,000,000th", "one millionth"),
        ("42nd", "forty second"),
        ("2010", "twenty ten"),
        ("1066", "one thousand sixty six"),
        ("1,234.05", "one thousand two hundred thirty four point zero five"),
        ("10:75", "ten seventy five"),
        ("25:30", "twenty five thirty"),
        ("mp3", "mp three"),
        ("h2o", "h two o"),
        ("$0.99", "ninety nine cents"),
        ("1/0", "one zero"),
        ("in the 1880s", "in the eighteen eighties"),
        ("x 1/3 y", "x one third y"),
        ("9/11", "nine eleven"),
        ("10² m³", "ten squared m cubed"),
        ("a $5-million deal", "a five million dollars deal"),
        ("$1–2 million", "one to two million dollars"),
        ("$1–$2 million", "one to two million dollars"),
        ("$5-10", "five to ten dollars"),
        ("$.99", "ninety nine cents"),
        ("hit .300", "hit point three zero zero"),
        ("the end.5", "the end five"),
        ("Main St. is", "main street is"),
        ("on Main St.", "on main street"),
        ("St. Paul is", "saint paul is"),
        ("to St. John's", "to saint john's"),
        ("I said no. 5 came", "i said no five came"),
        ("see no.5", "see number five"),
        ("10 000 men", "ten thousand men"),
        ("1 250 000 men", "one million two hundred fifty thousand men"),
        ("10\N{THIN SPACE}500 men", "ten thousand five hundred men"),
        ("in 1984 300 men", "in nineteen eighty four three hundred men"),
        ("page 5 300 words", "page five three hundred words"),
        ("₹1,00,000", "one hundred thousand rupees"),
        ("1,2 and 3,400", "one two and three thousand four hundred"),
    ],
)
def test_fractions_times_money_ranges_and_tags(text: str, wanted: str) -> None:
    assert normalize(text) == wanted
    assert normalize(wanted) == wanted


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        ("0", "zero"),
        ("13", "thirteen"),
        ("85", "eighty five"),
        ("100", "one hundred"),
        ("1,000,001", "one million one"),
        ("219", "two hundred nineteen"),
        ("12,345", "twelve thousand three hundred forty five"),
        ("0.05", "zero point zero five"),
        ("1" * 16, " ".join(["one"] * 16)),
    ],
)
def test_numbers(number: str, wanted: str) -> None:
    assert spell_number(number) == wanted


def test_a_text_of_many_numbers_takes_no_memory_for_all_of_them() -> None:
    assert _spelt.cache_info().maxsize == 4096


def test_no_two_numbers_sound_alike() -> None:
    assert len({spell_number(str(n)) for n in range(3000)}) == 3000


def test_very_many_digits_are_spelt_one_by_one_in_linear_time():
    threes = " ".join(["three"] * 41)
    assert normalize(f"a {'12' * 20}!") == "a" + " one two" * 20
    assert normalize(f"0.{'3' * 41}, 1,000.{'3' * 41}.") == (
        f"zero point {threes} one thousand point {threes}"
    )
    begun = time.process_time()
    assert normalize("1" * 20_000) == " ".join(["one"] * 20_000)
    assert time.process_time() - begun < 5  # 47 where every digit begins a search
