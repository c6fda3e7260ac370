"""Durations in messages."""

import pytest

from asr.render.durations import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "1.5 min"), (1152, "19.2 min"), (5400, "1.5 h")],
)
def test_a_duration_has_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
