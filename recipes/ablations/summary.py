"""Results of several seeds: as mean and deviation in a table, and as points in a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asr.errors import UserError

DOTS = 110  # per inch
PANEL = 2.4  # inches, width
ROW = 0.5  # inches
MARKS = (  # markers of the series, with their colours
    ("o", "#0b5394"), ("^", "#cc5500"), ("s", "#4c8c2b"),
    ("D", "#7a3b8f"), ("v", "#8c6d1f"), ("P", "#555555"),
)  # fmt: skip
LANE = 0.7  # share of a row that the points of all series cover

Series = Mapping[str, Sequence[float]]  # name → value of each seed
Panel = Mapping[str, Series]  # row → its series


def cell(values: Sequence[float], digits: int = 3) -> str:
    """Return "mean ± sample standard deviation" over seeds; for one seed, its value."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def panels(titles: Mapping[str, str], rows: Mapping[str, Sequence[object]]) -> dict[str, Panel]:
    """Return a panel for each title, with one series: a field of the results of each seed.

    titles: title → name of the field.
    """
    return {
        title: {row: {"": [getattr(each, name) for each in seeds]} for row, seeds in rows.items()}
        for title, name in titles.items()
    }


def draw(
    path: Path, panels: Mapping[str, Panel], label: str = "", end: float | None = None
) -> None:
    """Draw panels side by side: in each row a point per seed and a bar at the mean.

    panels: title → panel; all have the same rows and series. label: of the horizontal axes, which
        start at 0. end: upper limit of all axes; None sets each by its data.
    The ending of `path` chooses the format, .png or .svg.

    Raises UserError if the picture cannot be written.
    """
    rows = list(next(iter(panels.values())))
    size = (1.6 + PANEL * len(panels), 1.1 + ROW * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        for place, row in enumerate(rows):
            _draw_row(axis, place, panel[row])
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel(label, fontsize=9)
        axis.tick_params(labelsize=9)
        axis.grid(axis="x", color="0.9")
        axis.hlines([place + 0.5 for place in range(len(rows) - 1)], 0, 1, color="0.85", lw=0.8,
                    transform=axis.get_yaxis_transform())  # fmt: skip
        right = axis.get_xlim()[1] if end is None else end
        axis.set_xlim(-0.04 * right, 1.04 * right)
    axes[0].set_yticks(range(len(rows)), rows)
    axes[0].set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    handles, names = axes[0].get_legend_handles_labels()
    if len(names) > 1:
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a picture; the ending of its name chooses the format, .png or .svg.

    Raises UserError if it cannot be written.
    """
    try:
        figure.savefig(path, dpi=DOTS)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot write the picture: {error}") from error


def _draw_row(axis: Axes, place: int, series: Series) -> None:
    """Draw the points of a row, each seed a little lower, so that equal values stay visible."""
    for number, ((name, values), (mark, colour)) in enumerate(
        zip(series.items(), MARKS[: len(series)], strict=True)
    ):
        share = LANE / len(series)
        top = place - LANE / 2 + share * number
        heights = [top + share * (0.5 + at) / len(values) for at in range(len(values))]
        label = name if place == 0 else None
        axis.plot(values, heights, mark, color=colour, ms=4.5, alpha=0.8, mew=0, label=label)
        middle = mean(values)
        axis.plot([middle] * 2, [top, top + share], "-", color=colour, lw=1.5)
