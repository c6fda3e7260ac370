"""The words of a page."""

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
    words = page_words(["— the moon — was"])
    assert [word.text for word in words] == ["the", "moon —", "was"]
    assert [word.stops for word in words] == [False, True, False]


def test_spoken_words_are_normalised() -> None:
    for word in page_words(["Mr. Smith paid $5 in 1984"]):
        assert word.spoken == normalize(word.spoken)


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
