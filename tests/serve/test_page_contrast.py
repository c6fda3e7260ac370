"""Text on the shades of the web page has a contrast of at least 4.5:1 (WCAG 2.2, 1.4.3)."""

import re

import pytest

from asr.serve.app import PAGE

STYLE = (PAGE / "style.css").read_text("utf-8")
PAIR = r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)"
COLOURS = {name: pair for name, *pair in re.findall(PAIR, STYLE)}


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour as #rrggbb."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return sum(share * each for share, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "shade"),
    [
        ("ink", "doubt"),
        ("ink", "attended"),
        *((text, "now") for text in ("ink", "misread", "repeated", "added")),
        *((text, "paper") for text in ("ink", "quiet", "skipped", "misread", "repeated", "added")),
    ],
)
def test_contrast(text: str, shade: str, scheme: int) -> None:
    dark, light = sorted(luminance(COLOURS[each][scheme]) for each in (text, shade))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_words_are_shaded_in_these_colours() -> None:
    shades = re.findall(r"color-mix\(in srgb, var\(--(\w+)\) var\(--share", STYLE)
    assert set(shades) == {"doubt", "attended"}
