"""Text in pictures: fonts, sizes in inches, and positions of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, findSystemFonts, fontManager

from asr.render.places import Label, assign_lanes, move_apart
from asr.results import Span

DOTS: Final = 150  # per inch
POINT: Final = 1 / 72  # inch
LEADING: Final = 1.2  # from one label to the next, in multiples of the font size
FONT: Final = (4.5, 8.5)  # points, smallest and largest size of a label
LEADER: Final = 0.25  # inches, height of the line from a time to a rotated label
FILLED: Final = 0.6  # share of the width that rotated labels fill, if the smallest font allows it
LANES: Final = 3  # most lines of words between the panels; if more are needed, words are rotated

# Fallback fonts, in order, for characters that matplotlib's own font lacks.
FALLBACK_FONTS: Final = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)


class Tier(NamedTuple):
    """The words between the panels and their positions, in seconds and in inches from below.

    turned: whether words are written upwards. font: in points. leaders: for each label a line from
    its time to where it stands, two points; none if all labels stand at their times.
    """

    labels: list[Label]
    heights: list[float]
    height: float
    turned: bool
    font: float
    leaders: list[list[tuple[float, float]]]


def arrange(figure: Figure, spans: Sequence[Span], width: float, duration: float) -> Tier:
    """Place each word in one of several lanes, or rotated if there are too many words."""
    scale = width / duration  # inches per second
    font = FONT[1]
    labels = [Label(span.text, (span.start + span.end) / 2) for span in spans]
    line = LEADING * font * POINT
    sizes = text_widths(figure, [label.text for label in labels], font)
    lanes = assign_lanes([label.place * scale for label in labels], sizes, gap=font * POINT / 2)
    if max(lanes, default=0) < LANES:
        count = max(lanes, default=0) + 1
        heights = [(count - lane - 0.5) * line for lane in lanes]  # the first lane on top
        return Tier(labels, heights, count * line, False, font, [])
    font = float(np.clip(FILLED * width / len(labels) / POINT / LEADING, *FONT))
    labels = labels[:: ceil(LEADING * font * POINT * len(labels) / width)]
    places = np.array([label.place for label in labels])
    apart = move_apart(places * scale, LEADING * font * POINT, width) / scale
    moved = list(zip(labels, apart.tolist(), strict=True))
    leaders = [[(label.place, 0.0), (place, LEADER)] for label, place in moved]
    labels = [Label(label.text, place) for label, place in moved]
    height = LEADER + max(text_widths(figure, [label.text for label in labels], font))
    return Tier(labels, [LEADER + 2 * POINT] * len(labels), height, True, font, leaders)


def text_widths(figure: Figure, texts: Iterable[str], font: float) -> list[float]:
    """Return the widths of texts in inches; font: size in points."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]  # matplotlib
    properties = FontProperties(family=fonts(), size=font)
    return [
        renderer.get_text_width_height_descent(text, properties, False)[0] / DOTS for text in texts
    ]


@cache
def fonts() -> list[str]:
    """Return matplotlib's own font and those of `FALLBACK_FONTS` that are installed."""
    installed = {font.name for font in fontManager.ttflist}
    if installed.isdisjoint(FALLBACK_FONTS):  # matplotlib's list may be older than an installation
        installed = {font.name for font in [*fontManager.ttflist, *_new_fonts()]}
    return ["sans-serif", *(name for name in FALLBACK_FONTS if name in installed)]


def _new_fonts() -> list[FontEntry]:
    """Add fonts that matplotlib has not listed, and return them."""
    known = {font.fname for font in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            with suppress(OSError, RuntimeError):  # a font that cannot be read
                fontManager.addfont(path)
    return [font for font in fontManager.ttflist if font.fname not in known]
