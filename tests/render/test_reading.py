"""A reading as marked text and as one HTML page."""

import re
from base64 import b64decode
from html.parser import HTMLParser

import pytest

from asr.reading import Hesitation, Reading, ReadStatus, ReadWord
from asr.render.reading import to_text
from asr.render.reading_page import to_html

READING = Reading(
    "page.wav",
    5.0,
    (
        ReadWord("The", ReadStatus.REPEATED, "the", 0.0, 0.2, 0.9, 0, 0),
        ReadWord("The", ReadStatus.RIGHT, "the", 0.3, 0.5, 0.9, 0, 0),
        ReadWord("<b>room</b>", ReadStatus.MISREAD, 'moon"&', 0.5, 1.0, 0.1, 0, 1),
        ReadWord("always", ReadStatus.SKIPPED, None, None, None, None, 0, 2),
        ReadWord("quite", ReadStatus.ADDED, "quite", 1.0, 1.5, 0.8, 1, None),
        ReadWord("shone.", ReadStatus.RIGHT, "shone", 2.5, 3.0, 0.95, 1, 3),
    ),
    (Hesitation(1.5, 2.5, 5),),
)
HTML = to_html(READING, b"sound", "audio/flac", "<page>")


class Tags(HTMLParser):
    """Collects start tags with their attributes, and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_figures_count_the_words_of_the_page() -> None:
    assert (READING.reached, READING.accuracy) == (4, 2 / 4)
    assert READING.seconds == 3.0
    assert READING.words_per_minute == 60
    assert READING.right_words_per_minute == 40


def test_nothing_read_has_no_rate() -> None:
    reading = Reading(None, 1.0, (READING.words[3],), ())
    assert (reading.words_per_minute, reading.accuracy, reading.seconds) == (0, 0, 0)


def test_text_marks_each_status_and_keeps_the_lines() -> None:
    first, second, *_ = to_text(READING, colour=False).splitlines()
    assert first == '~The The <b>room</b> [moon"&] (always)'
    assert second == "+quite … shone."


def test_paragraphs_and_verses_stay_apart() -> None:
    first, second = READING.words[:2], READING.words[4:]
    lines = (0, 1, 3, 3)
    apart = tuple(
        word._replace(line=line) for word, line in zip((*first, *second), lines, strict=True)
    )
    reading = Reading("page.wav", 5.0, (*apart, apart[0]), ())  # and back to the first line
    lines_of_text = to_text(reading, colour=False).splitlines()
    assert lines_of_text[:5] == ["~The", "The", "", "+quite shone.", "~The"]
    found = Tags(to_html(reading, b"", "audio/flac", "page"))
    begins = [given.get("class") for tag, given in found.tags if tag == "p"][1:]
    assert begins == [None, None, "begins", None]


def test_colour_changes_nothing_but_colour() -> None:
    plain, coloured = to_text(READING, colour=False), to_text(READING, colour=True)
    assert "\x1b" not in plain
    assert coloured != plain
    assert re.sub("\x1b\\[[0-9]*m", "", coloured) == plain


def test_html_escapes_what_was_printed_and_heard() -> None:
    found = Tags(HTML)
    assert "<page>" in found.texts
    assert "<b>room</b>" in found.texts
    assert 'moon"&' in found.texts
    assert "b" not in {tag for tag, _ in found.tags}
    labels = [given["aria-label"] for tag, given in found.tags if tag == "button"]
    assert '<b>room</b>, misread as moon"&' in labels


def test_html_holds_the_recording_and_needs_nothing_else() -> None:
    found = Tags(HTML)
    (source,) = [given["src"] for tag, given in found.tags if tag == "audio"]
    assert source is not None and source.startswith("data:audio/flac;base64,")
    assert b64decode(source.partition(",")[2]) == b"sound"
    assert not re.search(r"https?:|@import|<link|url\(", HTML)


def test_skipped_words_and_pauses_are_text_for_screen_readers() -> None:
    texts = Tags(HTML).texts
    assert texts[texts.index("always") + 1] == ", skipped"
    assert "pause of 1.0 s" in texts


def test_each_word_that_was_said_is_a_button_with_its_times() -> None:
    buttons = [given for tag, given in Tags(HTML).tags if tag == "button"]
    said = [word for word in READING.words if word.start is not None]
    assert [float(each["data-start"] or -1) for each in buttons] == [word.start for word in said]
    assert [float(each["data-end"] or -1) for each in buttons] == [word.end for word in said]


def test_the_marks_are_explained_and_the_confidence_is_a_tooltip() -> None:
    legend = HTML[HTML.index("Marks: ") : HTML.index("hesitation.")]
    for status in set(ReadStatus) - {ReadStatus.RIGHT}:
        assert f'<span class="word {status}">{status.value}</span>' in legend
    assert 'title="shone. (95%)"' in HTML and 'aria-label="shone."' in HTML


@pytest.mark.parametrize("status", list(ReadStatus))
def test_each_status_has_a_style_besides_colour(status: ReadStatus) -> None:
    if status is not ReadStatus.RIGHT:
        (rule,) = re.findall(rf"^\.{status} {{(.*)}}$", HTML, re.M)
        assert "text-decoration" in rule
