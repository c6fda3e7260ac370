"""Text as people write it: words, marks and cases, and the text that they make again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.text.hashed import WHOLE, rows_of
from asr.text.normalize import normalize
from asr.text.written import Case, Mark, begins_sentence, read_written, spell

SENTENCES = [
    "Hello, is anyone there?",
    "Mr. Brown came on Tuesday. He left at once.",
    "I don't think that I'm late, but we'll see.",
    "The FBI's man met McDonald and O'Neill in New York.",
    "'Tis late, and they're gone.",
]


def again(text: str) -> str:
    return " ".join(spell(*zip(*read_written(text), strict=True)))


@pytest.mark.parametrize("text", SENTENCES)
def test_a_text_is_written_again_from_its_bare_words(text: str) -> None:
    assert [each.word for each in read_written(text)] == normalize(text).split()
    assert again(text) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("“Stop!” he cried. Stop! He ran.", "Stop, he cried. Stop. He ran."),
        ("Wait... what? He waited... Then he left", "Wait, what? He waited. Then he left"),
        ("One -- two – three; four: five", "One, two, three, four, five"),
        ("A well-known man (a poet), she said", "A well known man a poet, she said"),
        ("By W. A. Crooks, U.S. Navy", "By W A Crooks, U S Navy"),
        ("It cost $5, or 25%.", "It cost five dollars, or twenty five percent."),
        ("Dr. Smith of St. Ives", "Doctor Smith of Saint Ives"),
        ("Sgt. Low and Gen. Lee on Dec. 5", "Sgt Low and Gen Lee on Dec five"),
    ],
)
def test_signs_become_a_comma_a_full_stop_or_a_question_mark(text: str, wanted: str) -> None:
    assert again(text) == wanted


def test_sentences_begin_with_a_capital_and_only_they_and_names_do() -> None:
    words = ["yes", "i", "am", "here", "are", "you"]
    marks = [Mark.STOP, 0, 0, Mark.STOP, 0, Mark.QUESTION]
    assert " ".join(spell(words, marks, [Case.LOWER] * 6)) == "Yes. I am here. Are you?"
    assert spell(["a", "bbc", "man"], [0, 0, 0], [Case.LOWER, Case.UPPER, Case.CAPITAL]) == [
        *("A", "BBC", "Man")
    ]
    longest = ["unesco's", "babblicating"]
    assert spell(longest, [0, 0], [Case.UPPER] * 2, False) == ["UNESCO's", "Babblicating"]
    read = read_written("Yes. I am here. Are you?")
    assert begins_sentence(read) == [True, True, False, False, True, False]


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]{1,9}('[a-z]{1,2})?", fullmatch=True),
            st.sampled_from(Mark),
            st.sampled_from(Case),
        ),
        max_size=8,
    )
)
def test_only_the_way_a_word_is_written_changes(labelled: list[tuple[str, Mark, Case]]) -> None:
    """The bare words can be read from what is written, word by word."""
    words, marks, cases = zip(*labelled, strict=True) if labelled else ((), (), ())
    spelt = spell(words, marks, cases)
    assert len(spelt) == len(words)
    for word, spelling, mark in zip(words, spelt, marks, strict=True):
        if word not in ("mister", "missus"):
            assert spelling.lower() == word + ("", ",", ".", "?")[mark]


@given(st.text("abcdefghijklmnopqrstuvwxyz'", min_size=1, max_size=12))
def test_rows_of_a_word_are_in_the_table_and_those_of_its_spelling(word: str) -> None:
    rows = rows_of(word, 1000)
    assert rows == rows_of(word, 1000) and all(0 <= each < 1000 for each in rows)
    assert len(rows) > WHOLE  # a word of one letter has n-grams as well
    # A longer word shares the n-grams of its beginning, and not its own rows.
    longer = rows_of(word + "ing", 10**9)
    shared = set(rows_of(word, 10**9)) & set(longer)
    assert not shared & set(longer[:WHOLE])
    assert len(word) < 2 or shared


def test_a_long_run_of_signs_takes_linear_time():
    begun = time.process_time()
    assert read_written("'" * 100_000 + "x,") == [("x", Mark.COMMA, Case.LOWER)]
    assert time.process_time() - begun < 5  # minutes where every sign begins a search
