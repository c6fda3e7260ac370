"""Subtitles keep every word and time, and reading restores what was written."""

import json
import math
import textwrap
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import UserError
from asr.render.ass import is_ass
from asr.render.read_subtitles import parse_srt, parse_vtt
from asr.render.subtitles import (
    LEAST,
    LINES,
    LONGEST,
    PAUSE,
    READING,
    WIDTH,
    Span,
    cues,
    fit,
    to_ctm,
    to_json_line,
    to_srt,
    to_textgrid,
    to_vtt,
    to_vtt_with_tags,
)

# No deadline: on a busy machine an example may be slow.
patient = settings(deadline=None)
JOINER = "\N{WORD JOINER}"
WORDS = [Span("hello", 0.5, 0.9, 0.8), Span("world", 1.0, 1.5, 0.6)]

UNBROKEN = {"break_long_words": False, "break_on_hyphens": False}

letters = st.text(alphabet="ab<>&-'7\"éж", min_size=1, max_size=12)  # in words with spaces
# Word, pause and length in ms: words that fill a cue by characters or time, or end in a pause.
quick = st.tuples(letters, st.integers(0, 50), st.integers(0, 100))
slow = st.tuples(letters, st.integers(0, 1000), st.integers(0, 2500))


@st.composite
def spoken(draw: st.DrawFn) -> list[Span]:
    """Return consecutive words with times in whole milliseconds."""
    spans, now = [], 0
    for text, pause, length in draw(
        st.one_of(st.lists(quick, max_size=60), st.lists(slow, max_size=40))
    ):
        spans.append(Span(text, (now + pause) / 1000, (now + pause + length) / 1000))
        now += pause + length
    return spans


@patient
@given(spoken())
def test_cues_keep_all_words_and_times_within_the_limits(words: list[Span]) -> None:
    found = cues(words)
    assert [w for cue in found for w in cue.text.split()] == [word.text for word in words]
    heard = iter(words)
    starts = [cue.start for cue in found[1:]]
    for cue, following in zip(found, [*starts, math.inf], strict=False):
        inside = [next(heard) for _ in cue.text.split()]
        readable = cue.start + max(LEAST, len(cue.text) / READING)
        assert cue.start == inside[0].start
        assert cue.end == pytest.approx(max(inside[-1].end, min(readable, following)), abs=0.001)
        assert cue.end <= max(inside[-1].end, following)
        if len(inside) > 1:
            lines = cue.text.split("\n")
            assert len(lines) <= LINES
            assert max(map(len, lines)) <= WIDTH
            assert cue.end - cue.start <= LONGEST
            pauses = [b.start - a.end for a, b in pairwise(inside)]
            assert max(pauses) < PAUSE


def ends_after(start: float) -> float:
    """Return the end of the shortest cue."""
    return round(1000 * start + 1) / 1000


@patient
@given(spoken())
def test_srt_and_vtt_read_back_as_written(words: list[Span]) -> None:
    found = cues(words)
    assert parse_srt(to_srt(found)) == found
    of_vtt = [
        each._replace(text=each.text.replace(JOINER, "")) for each in parse_vtt(to_vtt(found))
    ]
    assert of_vtt == [each._replace(end=max(each.end, ends_after(each.start))) for each in found]


@patient
@given(st.integers(0, 400_000_000))
def test_stamps_read_back_to_the_millisecond(milliseconds: int) -> None:
    time = milliseconds / 1000
    for near in (time - 0.0004, time, time + 0.0004):
        assert parse_srt(to_srt([Span("x", near, near)])) == [Span("x", time, time)]


def test_srt_and_vtt_by_hand() -> None:
    spans = [Span("one & two", 0, 59.9996), Span("a\n\nb", 3600, 3661.5)]
    assert to_srt(spans) == (
        "1\n00:00:00,000 --> 00:01:00,000\none & two\n\n2\n01:00:00,000 --> 01:01:01,500\na\nb\n"
    )
    assert to_vtt(spans) == (
        "WEBVTT\n\n00:00:00.000 --> 00:01:00.000\none &amp; two\n\n"
        "01:00:00.000 --> 01:01:01.500\na\nb\n"
    )
    assert (to_srt([]), to_vtt([])) == ("", "WEBVTT\n")


def test_lines_of_a_cue_are_about_equally_long() -> None:
    (cue,) = cues([Span("this is a line that is only just too long for one", 0, 5)])
    lengths = [len(line) for line in cue.text.split("\n")]
    assert len(lengths) == 2
    assert abs(lengths[0] - lengths[1]) < 8


def test_a_cue_ends_with_a_sentence_of_more_than_one_line() -> None:
    long = "this sentence takes more than the one line of a cue here."
    short = "So it goes. We left."
    spoken = [Span(each, at / 5, at / 5 + 0.2) for at, each in enumerate(f"{long} {short}".split())]
    assert [cue.text.replace("\n", " ") for cue in cues(spoken)] == [long, short]
    bare = [word._replace(text=word.text.strip(".")) for word in spoken]
    assert len(cues(bare)) == 1


def spoken_evenly(text: str) -> list[Span]:
    return [Span(each, at / 5, at / 5 + 0.2) for at, each in enumerate(text.split())]


def test_no_cue_has_a_single_last_word() -> None:
    words = "in the last of these rooms we found the old man, who had not yet heard of his arrest"
    first, second = cues(spoken_evenly(words))
    assert second.text.startswith("who had not") and second.text.endswith("arrest")
    assert (first.start, first.end, second.start) == (0.0, 2.2, 2.2)
    without_comma = [each.text for each in cues(spoken_evenly(words.replace(",", "")))]
    assert abs(len(without_comma[0]) - len(without_comma[1])) < 12


def test_a_cue_does_not_end_after_a_title() -> None:
    plain = "the long sentence before it has more than forty characters then {} Fuchs brought it"
    for title in ("Mrs.", "Dr.", "Rev. Dr."):
        found = cues(spoken_evenly(plain.format(title)))
        assert all(not each.text.endswith(title) for each in found), found
    for count in range(1, 20):  # wherever the cue is full
        words = " ".join(["seventeen"] * count)
        for each in cues(spoken_evenly(f"{words} Mr. {words}")):
            assert not each.text.endswith("Mr.")
    ends = "this sentence takes more than the one line of a cue, by Mr. Brown."
    assert len(cues(spoken_evenly(f"{ends} So it goes on and on."))) == 2


def test_a_cue_lasts_until_it_can_be_read() -> None:
    long = "a sentence of about sixty characters that is spoken too fast"
    spans = [Span("Yes.", 0, 0.2), Span("No.", 0.9, 1.0), Span(long, 5, 6), Span("So.", 7.8, 8)]
    times = [(each.start, each.end) for each in cues(spans)]
    assert times == [(0, 0.9), (0.9, 1.9), (5, 7.8), (7.8, 8.8)]


def test_words_do_not_cross_a_pause_to_fill_a_short_cue() -> None:
    words = spoken_evenly(
        "in the last of these rooms we found the man who had not heard of it at all"
    )
    later = Span("Yes.", words[-1].end + 0.8, words[-1].end + 1)
    assert [each.text.split()[-1] for each in cues([*words, later])] == ["all", "Yes."]


def test_long_segment_is_divided_by_characters() -> None:
    segment = Span(" ".join(["word"] * 50), 10.0, 30.0, 0.9)
    found = cues([segment])
    assert len(found) > 2
    assert (found[0].start, found[-1].end) == (10.0, 30.0)
    assert all(cue.confidence == pytest.approx(0.9) for cue in found)
    for cue in found:
        assert cue.end - cue.start == pytest.approx(0.4 * len(cue.text.split()))


def test_confidence_of_a_cue_is_the_mean_where_all_is_known() -> None:
    assert cues(WORDS)[0].confidence == pytest.approx(0.7)
    assert cues([WORDS[0], WORDS[1]._replace(confidence=None)])[0].confidence is None


def test_srt_from_elsewhere_is_read() -> None:
    text = (
        "\ufeff1\r\n00:00:01,5 --> 00:00:02.250 X1:5\r\n<i>Hi</i>\r\n42\r\n\r\n\r\n"
        "00:03,000 --> 00:04,000"
    )
    assert parse_srt(text) == [Span("<i>Hi</i>\n42", 1.5, 2.25), Span("", 3.0, 4.0)]


@pytest.mark.parametrize(
    ("text", "wanted", "warnings"),
    [
        ("1\n00:01,0 --> 00:02,0\none\n\ntwo\n\n2\n00:03,0 --> 00:04,0\nb", ["one\ntwo", "b"], 1),
        ("1\n00:01,0-->00:02,0\na --> b\n\n\n2\n00:03,0 -->00:04,0\nb\n", ["a --> b", "b"], 0),
        ("1\n00:01,0 --> 00:02,0\na\n\n2\n\n", ["a"], 1),
        ("1\n00:01,0 --> 00:02,0\n42\n", ["42"], 0),
        ("1\n00:01,0 --> 00:02,0\n42\n\n2\n00:03,0 --> 00:04,0\n\n", ["42", ""], 0),
        ("1\n00:01,0 --> 00:02,0\n\n2\n00:03,0 --> 00:04,0\n\nx", ["", "x"], 1),
    ],
)
def test_damaged_srt_is_read_with_a_warning(text: str, wanted: list[str], warnings: int) -> None:
    told: list[str] = []
    assert [each.text for each in parse_srt(text, told.append)] == wanted
    assert len(told) == warnings


def test_escaped_tags_of_vtt_stay_text() -> None:
    text = "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n<i>a &lt;b&gt; &amp; 1 &lt; 2</i>\n"
    cues_found = parse_vtt(text)
    assert to_vtt_with_tags(cues_found).replace(JOINER, "") == text


def test_a_vtt_cue_lasts() -> None:
    assert "00:00:01.000 --> 00:00:01.001" in to_vtt([Span("a", 1.0, 1.0)])


def test_a_long_line_of_semicolons_is_no_script() -> None:
    begun = time.process_time()
    assert not is_ass("; " * 5000 + "x")
    assert is_ass("; a comment\n\n;\n[Script Info]\n")
    assert time.process_time() - begun < 1


def test_vtt_from_elsewhere_is_read() -> None:
    text = (
        "WEBVTT - some film\nKind: captions\n\nSTYLE\n::cue {}\n\nNOTE\nnothing\n\n"
        "intro\n00:01.000 --> 00:02.000 align:start\nA &lt; B\n\n"
        "01:00:00.000 --> 01:00:01.000\nNOTE\n"
    )
    assert parse_vtt(text) == [Span("A < B", 1.0, 2.0), Span("NOTE", 3600.0, 3601.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nhello\n", "SRT line 2: got 'hello'"),
        ("lost text\n\n1\n00:00:01,000 --> 00:00:02,000\nx\n", "SRT line 1: got 'lost text'"),
        ("1\n", "SRT line 1: got '1'"),
        ("1\n00:00:03,000 --> 00:00:02,000\nx\n", "ends at 2.0 s, before its start"),
        ("1\n00:00:99,000 --> 00:01:00,000\nx\n", "SRT line 2"),
    ],
)
def test_malformed_srt_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_srt(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be WEBVTT"),
        ("1\n00:00:01,000 --> 00:00:02,000\nx\n", "must be WEBVTT"),
        ("WEBVTT\n00:01.000 --> 00:02.000\nx\n", "empty line"),
        ("WEBVTT\n\nname only\n", "VTT line 4: got nothing"),
    ],
)
def test_malformed_vtt_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_vtt(text)


def test_json_line_is_one_line_and_holds_all() -> None:
    line = to_json_line("a.flac", "hello\nworld", WORDS)
    assert line.count("\n") == 1
    content = json.loads(line)
    assert (content["path"], content["text"]) == ("a.flac", "hello\nworld")
    assert [Span(**word) for word in content["words"]] == WORDS
    with pytest.raises(ValueError, match="JSON"):
        to_json_line("a.flac", "x", [Span("x", 0, math.nan)])


def test_ctm_by_hand() -> None:
    spans = [*WORDS, Span("two words", 2.0, 2.8)]
    assert to_ctm("my talk", spans) == (
        "my_talk 1 0.500 0.400 hello 0.8000\n"
        "my_talk 1 1.000 0.500 world 0.6000\n"
        "my_talk 1 2.000 0.300 two\n"
        "my_talk 1 2.300 0.500 words\n"
    )


def test_textgrid_fills_its_tier_without_overlap() -> None:
    overlapping = [Span("a", 1.0, 2.0), Span("b", 1.5, 1.8), Span("c", 3.0, 3.0)]
    rows = [row.strip() for row in to_textgrid({"words": overlapping}, 2.5).split("\n")]
    assert rows.count('text = ""') == 2
    times = [float(row.split("=")[1]) for row in rows if row.startswith("xm")][4:]
    assert times[::2] == [0, 1, 2, 2.001, 3]
    assert times[1::2] == [1, 2, 2.001, 3, 3.001]


@settings(patient, max_examples=30)
@given(words=spoken())
def test_textgrid_reads_back_in_praatio(
    tmp_path_factory: pytest.TempPathFactory, words: list[Span]
) -> None:
    textgrid = pytest.importorskip("praatio.textgrid")
    timed = [word for word in words if word.end > word.start]
    duration = 200.0
    path = tmp_path_factory.mktemp("grid") / "x.TextGrid"
    path.write_text(to_textgrid({"words": timed, "cues": cues(timed)}, duration), "utf-8")
    grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False)
    assert grid.tierNames == ("words", "cues")
    assert [Span(i.label, i.start, i.end) for i in grid.getTier("words").entries] == timed
    assert grid.maxTimestamp == duration


def test_word_too_long_for_a_line_stands_alone() -> None:
    long = Span("x" * 50, 0.0, 1.0)
    assert [cue.text for cue in cues([long, Span("y", 1.0, 1.2)])] == [long.text, "y"]


@given(st.lists(letters, max_size=30), st.integers(1, 50))
def test_fitting_keeps_words_and_takes_no_more_lines_than_it_must(
    words: list[str], width: int
) -> None:
    text = " ".join(words)
    lines = fit(text, width).split("\n")
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or " " not in line for line in lines)
    assert len(lines) == max(1, len(textwrap.wrap(text, width, **UNBROKEN)))
