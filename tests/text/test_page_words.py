"""The words of a page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.text.normalize import normalize
from asr.text.page import page_words, sentence_of_each


def test_words_keep_their_print_and_their_line() -> None:
    words = page_words(["“Look,” she said;", "", "it’s  5 o'clock"])
    assert [(word.text, word.spoken, word.line) for word in words] == [
        ("“Look,”", "look", 0),
        ("she", "she", 0),
        ("said;", "said", 0),
        ("it’s", "it's", 2),
        ("5", "five", 2),
        ("o'clock", "o'clock", 2),
    ]
    assert [word.stops for word in words] == [True, False, True, False, False, False]


def test_signs_alone_join_the_word_before_them() -> None:
    words = page_words(["the moon — was"])
    assert [word.text for word in words] == ["the", "moon —", "was"]
    assert [word.stops for word in words] == [False, True, False]


def test_signs_at_the_start_of_a_line_join_the_word_after_them() -> None:
    words = page_words(["— Who is there?", "• — I am"])
    assert [(word.text, word.line) for word in words] == [
        *(("— Who", 0), ("is", 0), ("there?", 0), ("• — I", 1), ("am", 1))
    ]


@pytest.mark.parametrize("line", ["", "  ", "* * *", "[door slams]"])
def test_a_reader_may_pause_at_a_line_without_words(line: str) -> None:
    words = page_words(["The End", line, "By me"])
    assert [(word.text, word.line) for word in words] == [
        *(("The", 0), ("End", 0), ("By", 2), ("me", 2))
    ]
    assert [word.stops for word in words] == [False, True, False, False]


@pytest.mark.parametrize("hyphen", ["-", "\N{HYPHEN}", "\N{SOFT HYPHEN}"])
def test_a_word_hyphenated_at_the_end_of_a_line_is_one_word(hyphen: str) -> None:
    words = page_words(
        [f"soft\N{SOFT HYPHEN}ly shin{hyphen}", f" ing, trans{hyphen}", "continental"]
    )
    assert [(word.text, word.spoken, word.line) for word in words] == [
        ("softly", "softly", 0),
        ("shin-ing,", "shining", 1),
        ("trans-continental", "transcontinental", 2),
    ]


@pytest.mark.parametrize(
    "lines", [("Jean-", "Paul"), ("3-", "four"), ("he -", "me"), ("con-", "", "nect"), ("un-",)]
)
def test_other_hyphens_at_the_end_of_a_line_join_nothing(lines: tuple[str, ...]) -> None:
    words = page_words(lines)
    assert "|".join(word.text for word in words) == "|".join(filter(None, lines))


def test_spoken_words_are_normalised() -> None:
    for word in page_words(["Mr. Smith paid $5 in 1984"]):
        assert word.spoken == normalize(word.spoken)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("it cost $5 million then", "it|cost|five million dollars|then"),
        ("for 2 1/2 hours", "for|two and a half|hours"),
        ("No. 5 is here.", "number five|is|here"),
        ("I said no. 5 came", "i|said|no|five|came"),
        ("World War II began", "world|war|two|began"),
        ("CHAPTER XIV", "chapter|fourteen"),
        ("Part I of Act IV, Volume XL", "part|one|of|act|four|volume|forty"),
        ("Henry VIII and Louis XIV", "henry|the eighth|and|louis|the fourteenth"),
        ("The part I like, as John I see", "the|part|i|like|as|john|i|see"),
        ("I [door slams] left", "i|left"),
        ("at 5 p.m. on Main St. with me", "at|five|p m|on|main street|with|me"),
    ],
)
def test_words_are_spoken_as_in_their_line(line: str, wanted: str) -> None:
    words = page_words([line])
    assert "|".join(word.spoken for word in words) == wanted
    assert " ".join(word.text for word in words) == line


@given(st.text(alphabet="No. 5$1/2IV'-é[]\u2009", max_size=30))
def test_a_line_of_any_signs_is_kept(line: str) -> None:
    words = page_words([line])
    assert not words or " ".join(word.text for word in words) == " ".join(line.split())


def test_an_empty_page_has_no_words() -> None:
    assert page_words(["", " — "]) == []


def test_words_belong_to_sentences() -> None:
    words = page_words(["He said: “Mr. Smith — is", "here.” She left.", "The End", "", "By me"])
    numbers = sentence_of_each(words)
    found = [
        " ".join(word.text for word, own in zip(words, numbers, strict=True) if own == number)
        for number in range(numbers[-1] + 1)
    ]
    assert found == ["He said: “Mr. Smith — is here.”", "She left.", "The End", "By me"]


def test_an_empty_page_has_no_sentences() -> None:
    assert sentence_of_each([]) == []
