"""Markup of cues: what is split is joined again, and tags have no width."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.render.markup import (
    TAG,
    Kind,
    begins_speaker,
    lay_out,
    srt_text,
    turns,
    vtt_text,
    without_tags,
)
from asr.render.subtitles import fit

pieces = st.sampled_from(
    [
        "<i>",
        "</i>",
        "{\\an8}",
        "[door slams]",
        "♪ la ♪",
        "Hello",
        "there,",
        "you.",
        "- ",
        "JOHN:",
        ">> ",
        " ",
        "\n",
    ]
)


@given(st.lists(pieces, max_size=12).map("".join))
def test_everything_comes_back_in_its_order(text: str) -> None:
    found = "\n".join(lay_out(turn, lambda each: each) for turn in turns(text))
    assert "".join(without_tags(found).split()) == "".join(without_tags(text).split())
    assert TAG.findall(found) == TAG.findall(text)


def test_lines_are_broken_as_without_tags() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    tagged = words.replace("six", '<font color="red">six').replace("nine", "nine</font>")
    (turn,) = turns(tagged)
    assert without_tags(lay_out(turn, fit)) == fit(words)
    assert lay_out(turn, fit).replace("\n", " ") == tagged


def test_a_dash_after_a_sound_is_none_of_the_words() -> None:
    ((_, dash, words),) = turns("[sighs] - I am home.")
    assert [dash.text, words.text] == ["-", "I am home."] and dash.kind is Kind.SOUND


def test_words_hold_a_letter_or_a_digit() -> None:
    (turn,) = turns("<i>…</i> [x] ... 7 -- !")
    words = [piece.text for piece in turn if piece.kind is Kind.WORDS]
    assert words == ["... 7 -- !"]


def test_formats_keep_their_own_tags() -> None:
    text = '{\\an8}<v Ann><i>a < b</i> <font color="red">& c</font> <00:01.000>d'
    assert srt_text(text) == '{\\an8}<i>a < b</i> <font color="red">& c</font> d'
    assert vtt_text(text) == "<v Ann><i>a &lt; b</i> &amp; c <00:01.000>d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- Hi.\n\N{EN DASH} You?\nMe?", ["- Hi.", "- You? Me?"]),
        ("[sighs] - I am home.", ["[sighs] - I am home."]),
        ("- [sighs]\N{EM DASH}No.", ["- [sighs] - No."]),
        ("and then", ["and then"]),
        ("-", ["-"]),
        ("", []),
    ],
)
def test_a_dash_begins_a_speaker(text: str, expected: list[str]) -> None:
    assert [lay_out(turn, fit) for turn in turns(text)] == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("JOHN: Hi.\nMAN #2: No.", ["JOHN:", "MAN #2:"]),
        (">> You?\nMe?\n>> MRS. O'BRIEN: Yes.", [">>", ">> MRS. O'BRIEN:"]),
        ("- ÉMILE: Hi.\n- {\\an8}<i>MARY:</i> Hi.", ["ÉMILE:", "MARY:"]),
        ("JOHN:\nHi.", ["JOHN:"]),
        ("John: hi. TOM: no. At 10:30 A: I", []),
        ("IT IS SIMPLE: DON'T GO.", []),
    ],
)
def test_a_name_in_capitals_begins_a_speaker(text: str, names: list[str]) -> None:
    found = turns(text)
    kept = [each.text for turn in found for each in turn if each.kind is Kind.SOUND]
    assert [each for each in kept if each != "-"] == names
    assert len(found) == max(1, len(names))
    assert all(map(begins_speaker, found)) == bool(names)
    assert "\n".join(lay_out(turn, fit) for turn in found).split() == text.split()


def test_a_very_long_word_takes_time_by_its_length() -> None:
    begun = time.process_time()
    turns("a" * 200_000)
    assert time.process_time() - begun < 2  # by the square of its length: half a minute
