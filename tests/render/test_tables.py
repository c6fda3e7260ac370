"""Tables: every cell is in its column."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.render.tables import markdown_table, text_table

# No deadline: on a busy machine an example may be slow.
patient = settings(deadline=None)
HEADER = ("name", "WER %")
ROWS = [("plain", 12.375), ("beam", 9), ("none", None)]


def test_text_table() -> None:
    assert text_table(HEADER, ROWS).split("\n") == [
        "name   WER %",
        "-----  -----",
        "plain  12.38",
        "beam       9",
        "none       \N{EN DASH}",
    ]


def test_markdown_table() -> None:
    assert markdown_table(HEADER, [("a|b\nc", 1.0)], digits=1).split("\n") == [
        "| name   | WER % |",
        "| ------ | ----: |",
        "| a\\|b c |   1.0 |",
    ]


cells = st.text(alphabet="ab |\\日é", max_size=6)


@patient
@given(st.lists(st.tuples(cells, cells, st.integers()), max_size=5))
def test_markdown_rows_all_have_the_same_cells(rows: list[tuple[str, str, int]]) -> None:
    lines = markdown_table(("a", "b", "c"), rows).split("\n")
    assert len(lines) == len(rows) + 2
    assert {line.replace("\\|", "").count("|") for line in lines} == {4}


def test_wide_letters_take_two_columns() -> None:
    lines = text_table(("a", "b"), [("日本", "x"), ("abcd", "y")]).split("\n")
    assert lines[2] == "日本  x"
    assert lines[3] == "abcd  y"


def test_no_rows_leave_the_header() -> None:
    assert text_table(("a", "b"), []) == "a  b\n-  -"


def test_short_row_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells"):
        text_table(HEADER, [("alone",)])
