"""Several heat maps in one picture: all are drawn without overlap, too many are refused."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from asr.errors import UserError
from asr.render import panels
from asr.render.panels import MOST_PANELS, Panel, draw_heat_maps


def panel(rows: int, columns: int) -> Panel:
    weights = np.full((rows, columns), 1 / columns)
    title = f"a title of {rows} and {columns}, long enough for more than a line of a small panel"
    return Panel(weights, ["source"] * columns, ["a long target"] * rows, title)


@pytest.mark.parametrize(
    "sizes", [[(2, 2)], [(2, 3), (9, 9), (1, 5)], [(3, 4)] * 12, [(5, 40)] * 3]
)
def test_no_panel_covers_another(sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(panels, "save", lambda figure, path: figures.append(figure))
    draw_heat_maps("x.png", [panel(*size) for size in sizes])
    (figure,) = figures
    renderer = FigureCanvasAgg(figure).get_renderer()
    maps = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.images[0].get_array().shape for axes in maps] == sizes
    boxes = [axes.get_tightbbox(renderer) for axes in maps]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)


def test_pictures_are_written(tmp_path: Path) -> None:
    draw_heat_maps(tmp_path / "a.png", [panel(2, 2), panel(3, 4)])
    assert (tmp_path / "a.png").stat().st_size > 1000
    with pytest.raises(UserError, match="cannot draw"):
        draw_heat_maps(tmp_path / "a.xyz", [panel(2, 2)])


@pytest.mark.parametrize("count", [0, MOST_PANELS + 1])
def test_none_or_too_many_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"got {count} panels"):
        draw_heat_maps("x.png", [panel(2, 2)] * count)
