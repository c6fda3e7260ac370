"""Texts are split exactly at the ends of sentences, without loss."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.text.sentences import split_paragraphs, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Go.", "I lost.", "He's calm."],
        ["What?!", "Never…", "Ever.", "… and so"],
        ["what?", "you there!", "yes"],
        ["Dr. No met Mrs. Peel.", "At 3.5 km they left."],
        ["J. S. Bach was here.", "So am I.", "You too?"],
        ["At 5 p.m. on Monday.", "Yes."],
        ['"Go!" he said.', '"No."', "(Then?)", "She went."],
        ["hello... you there?"],
        ["Où va-t-elle ?", "« À Paris. »", "Élise"],
        ["and then"],
        ["Capt. Smith saw Gen. Lee.", "Sgt. Low did not."],
        ["See No. 5 and p. 7 or Fig. 3.", "On Dec. 5 he left."],
        ["He said no.", "5 came."],
        [""],
    ],
)
def test_sentences_are_found_again(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


def test_paragraphs_are_separated_by_blank_lines() -> None:
    text = "One.\nTwo.\n \n\n Three.\n\n"
    assert split_paragraphs(text) == (["One.\nTwo.", "Three.", ""], ["\n \n\n ", "\n\n"])


@given(st.text("Ab1 .!?…\"'()«»", max_size=40))
def test_nothing_is_lost(text: str) -> None:
    found = split_sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(found) or found == [""]


@pytest.mark.parametrize("text", ["." * 40_000, "a" * 200_000 + "'. X", "Ab" * 100_000 + '." X'])
def test_long_runs_of_the_same_kind_take_linear_time(text: str) -> None:
    begun = time.process_time()
    assert "".join(split_sentences(text)) == text.replace(" ", "")
    assert time.process_time() - begun < 2  # a minute and more where each place is tried
