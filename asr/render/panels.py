"""Several heat maps in one picture: a panel for each translation, in rows.

Panels of short sentences form a grid; each panel of a long sentence has a separate row. Sizes are
in inches, as in `asr.render.picture`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import accumulate
from math import ceil, sin, sqrt
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from asr.render.picture import HeatMapSize, heat_map_size, new_figure, place_heat_map, save
from asr.render.places import visible
from asr.render.texts import FONT, LEADING, POINT, text_widths

MOST_PANELS: Final = 12  # in one picture
WIDE: Final = 20  # columns of a heat map from which a panel has a separate row
TITLE_WIDTH: Final = 4.0  # inches, least width at which `place_heat_map` wraps a title
TURNED: Final = sin(3.1416 / 3)  # height of a label rotated by 60°, as a share of its width
BAR: Final = 0.75  # inches for the colour bar right of a heat map
SPACE: Final = 0.3  # inches between panels


class Panel(NamedTuple):
    """A heat map to draw: weights (U, T) of U target labels over T source labels."""

    weights: ArrayLike
    source: Sequence[str]
    target: Sequence[str]
    title: str


class _Room(NamedTuple):
    """Sizes of a panel in inches: the heat map, and the labels on its left and above it."""

    size: HeatMapSize
    left: float
    above: float

    @property
    def width(self) -> float:
        return self.left + max(self.size.width + BAR, TITLE_WIDTH) + SPACE

    @property
    def height(self) -> float:
        return self.above + self.size.height + SPACE


def draw_heat_maps(path: Path | str, panels: Sequence[Panel]) -> None:
    """Draw heat maps in a grid, in the given order: source above, target on the left.

    path: its ending chooses the format, .png, .svg or .pdf.

    Raises:
        UserError: the picture cannot be written, or not in this format.
        ValueError: there is no panel, or more than MOST_PANELS, or the shape of the weights does
            not match the labels.
    """
    if not 0 < len(panels) <= MOST_PANELS:
        raise ValueError(f"got {len(panels)} panels; wanted 1 to {MOST_PANELS}")
    figure = new_figure()
    rooms = [_room(figure, panel) for panel in panels]
    wide = max(len(panel.source) for panel in panels) > WIDE
    across = 1 if wide else ceil(sqrt(len(panels)))
    rows = [rooms[start : start + across] for start in range(0, len(rooms), across)]
    widths = [max(room.width for room in rooms[column::across]) for column in range(across)]
    bottom = sum(
        max(room.height for room in row) for row in rows
    )  # the rows are placed from here down to 0
    places = iter(panels)
    for row in rows:
        bottom -= max(room.height for room in row)
        top = bottom + max(
            room.size.height for room in row
        )  # aligns the upper edges of the heat maps of a row
        for room, left in zip(row, accumulate(widths, initial=0.0), strict=False):
            corner = (left + room.left, top - room.size.height)
            place_heat_map(figure, corner, room.size, *next(places))
    save(figure, path)


def _room(figure: Figure, panel: Panel) -> _Room:
    """Measure the labels of a panel."""
    size = heat_map_size(len(panel.target), len(panel.source))
    sources, targets = (
        max(text_widths(figure, map(visible, labels), size.font), default=0.0)
        for labels in (panel.source, panel.target)
    )
    lines = len(textwrap.wrap(panel.title, 48))
    above = TURNED * sources + lines * LEADING * (FONT[1] + 2) * POINT + 0.3
    return _Room(size, targets + 0.1, above)
