"""Pictures of attention weights, with the spectrogram or the source text.

Sizes are in inches. Panels are placed explicitly, from the lower left corner of the weights, so
that all panels of a picture have the same time axis for labels of any width. Saving includes labels
outside the panels.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from asr.errors import UserError, warn
from asr.render.places import SIGNS, Label, move_apart, outlines, row_labels, visible
from asr.render.spectrogram import show_spectrogram
from asr.render.texts import DOTS, FONT, LEADING, POINT, Tier, arrange, fonts
from asr.results import Span

INCHES_PER_SECOND: Final = 1.0
TIME_WIDTH: Final = (6.5, 16.0)  # inches, smallest and largest width of a time axis
ROWS_HEIGHT: Final = (2.0, 9.0)  # inches, smallest and largest height of the weights
ROW: Final = 0.15  # inches from one label to the next, if there is room
THIN_ROW: Final = 0.035  # inches, height of a row without its own label, if there is room
LEADER: Final = 0.12  # inches, length of the line from a row to its label
CELL: Final = 0.32  # inches, size of a cell in a heat map, if there is room
SPECTROGRAM: Final = 1.7  # inches
GAP: Final = 0.08  # inches between panels
_MISSING: Final = re.compile(r"Glyph (\d+) ")  # matplotlib's warning
BAR: Final = 0.12  # inches, width of a colour bar

WEIGHT_COLOURS: Final = "viridis"
OUTSIDE: Final = 0.45  # opacity of the shading outside the window
LEADERS: Final[dict[str, Any]] = {"color": "0.6", "linewidth": 0.5}
WINDOW_EDGES: Final[dict[str, Any]] = {"color": "#ff9f1c", "linewidth": 0.9, "alpha": 0.95}
EDGES: Final[dict[str, Any]] = {"color": "white", "linewidth": 0.5, "alpha": 0.45}  # of words


def draw_alignment(
    path: Path | str,
    samples: NDArray[np.float32],
    weights: ArrayLike,
    labels: Sequence[str],
    word_spans: Sequence[Span],
    seconds_per_annotation: float,
    duration: float,
    title: str | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> None:
    """Draw the spectrogram, the words and the attention weights on the same time axis.

    path: its ending chooses the format, .png, .svg or .pdf.
    samples: (S,) float32 at 16 kHz. weights: (U, T), one row per label; annotation t begins at
        t · seconds_per_annotation. duration: of the time axis, in seconds.
    allowed: (U, T), True inside the attention window, which is outlined.

    Raises:
        UserError: the picture cannot be written, or not in this format.
        ValueError: the weights are not (U, T) with one row per label.
    """
    shown = _checked(weights, len(labels))
    duration = max(duration, seconds_per_annotation)
    width = float(np.clip(duration * INCHES_PER_SECOND, *TIME_WIDTH))
    names = row_labels(labels)
    height = _rows_height(len(shown), len(names))
    figure = new_figure()
    tier = arrange(figure, word_spans, width, duration)
    above = height + tier.height + 2 * GAP

    sound = _axes(figure, 0, above, width, SPECTROGRAM)
    _colour_bar(figure, show_spectrogram(sound, samples), width, above, SPECTROGRAM, "dB")
    middle = _axes(figure, 0, height + GAP, width, tier.height)
    _show_words(middle, tier)
    below = _axes(figure, 0, 0, width, height)
    image = _show_weights(below, shown, seconds_per_annotation)
    _colour_bar(figure, image, width, 0, height, "attention weight")
    if allowed is not None:
        _outline(below, allowed, seconds_per_annotation)
    _label_rows(below, names, height)
    below.set_xlabel("seconds")
    ticks = MaxNLocator(nbins=max(5, round(width)), steps=[1, 2, 5, 10])
    times = sorted({time for word in word_spans for time in (word.start, word.end)})
    for panel in (sound, middle, below):
        panel.set_xlim(0, duration)
    for panel in (sound, below):
        panel.xaxis.set_major_locator(ticks)
        panel.vlines(times, *panel.get_ylim(), **EDGES)
    sound.tick_params(bottom=False, labelbottom=False)
    _write_title(sound, title, width)
    save(figure, path)


def draw_weights(
    path: Path | str, weights: ArrayLike, labels: Sequence[str], title: str | None = None
) -> None:
    """Draw the weights alone over annotation numbers, fast enough for every validation.

    weights: (U, T), one row per label. Raises as `draw_alignment`.
    """
    shown = _checked(weights, len(labels))
    names = row_labels(labels)
    width = float(np.clip(shown.shape[1] * CELL / 4, *TIME_WIDTH))
    height = _rows_height(len(shown), len(names))
    figure = new_figure()
    axes = _axes(figure, 0, 0, width, height)
    _colour_bar(figure, _show_weights(axes, shown), width, 0, height, "attention weight")
    _label_rows(axes, names, height)
    axes.set_xlabel("annotation")
    _write_title(axes, title, width)
    save(figure, path)


def draw_heat_map(
    path: Path | str,
    weights: ArrayLike,
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    title: str | None = None,
) -> None:
    """Draw the weights of a translation: source above, target on the left, high weights white.

    weights: (U, T), one row per target label, one column per source label.
    Raises as `draw_alignment`. Source: after Bahdanau et al. 2015, figure 3.
    """
    figure = new_figure()
    size = heat_map_size(len(target_labels), len(source_labels))
    place_heat_map(figure, (0, 0), size, weights, source_labels, target_labels, title)
    save(figure, path)


class HeatMapSize(NamedTuple):
    """Size of a heat map without its labels, in inches, and font size of the labels, in points."""

    width: float
    height: float
    font: float


def heat_map_size(rows: int, columns: int) -> HeatMapSize:
    """Return the size of a heat map of square cells; many cells are drawn smaller."""
    rows, columns = max(rows, 1), max(columns, 1)
    cell = min(max(CELL, 1 / rows), TIME_WIDTH[1] / columns, ROWS_HEIGHT[1] / rows)
    return HeatMapSize(columns * cell, rows * cell, float(np.clip(0.85 * cell / POINT, *FONT)))


def place_heat_map(
    figure: Figure,
    corner: tuple[float, float],
    size: HeatMapSize,
    weights: ArrayLike,
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    title: str | None,
) -> None:
    """Draw a heat map on a figure; corner: its lower left corner without labels, in inches.

    weights: as in `draw_heat_map`. Raises ValueError if labels and weights do not match.
    """
    shown = _checked(weights, len(target_labels), len(source_labels))
    width, height, font = size
    axes = _axes(figure, *corner, width, height)
    image = _show_weights(axes, shown, colours="gray")
    _colour_bar(figure, image, corner[0] + width, corner[1], height, "weight")
    style: dict[str, Any] = {"fontsize": font, "family": fonts(), "parse_math": False}
    sources = [visible(label) for label in source_labels]
    targets = [visible(label) for label in target_labels]
    turned: dict[str, Any] = {
        "rotation": 60,
        "rotation_mode": "anchor",
        "ha": "left",
        "va": "center",
    }
    axes.set_xticks(np.arange(len(sources)) + 0.5, sources, **style, **turned)
    axes.set_yticks(np.arange(len(targets)) + 0.5, targets, **style)
    axes.tick_params(length=2, top=True, labeltop=True, bottom=False, labelbottom=False)
    for label in axes.get_xticklabels():
        if label.get_text() in SIGNS.values():
            label.set(rotation=0, ha="center", va="bottom")
    _write_title(axes, title, max(width, 4.0))


# panels


def _show_weights(
    axes: Axes, weights: NDArray[np.float64], width: float = 1.0, colours: str = WEIGHT_COLOURS
) -> AxesImage:
    """Draw weights (U, T), first row on top, `width` units of the horizontal axis per column."""
    rows, columns = weights.shape
    return axes.imshow(
        weights,
        cmap=colours,
        vmin=0,
        vmax=float(weights.max()) or 1.0,
        aspect="auto",
        extent=(0, columns * width, rows, 0),
    )


def _outline(axes: Axes, allowed: NDArray[np.bool_], width: float) -> None:
    """Outline the allowed region (U, T) and darken the rest; units as in `_show_weights`."""
    rows, columns = allowed.shape
    shade = np.zeros((rows, columns, 4))
    shade[..., 3] = np.where(allowed | ~allowed.any(1, keepdims=True), 0, OUTSIDE)
    axes.imshow(shade, aspect="auto", extent=(0, columns * width, rows, 0))
    edges = [edge * (width, 1) for edge in outlines(allowed)]
    axes.add_collection(LineCollection(edges, **WINDOW_EDGES), autolim=False)


def _show_words(axes: Axes, tier: Tier) -> None:
    """Write the words into separate axes, each above the middle of its time span, or with a line
    to it.
    """
    axes.set_axis_off()
    axes.set_ylim(0, tier.height)
    axes.add_collection(LineCollection(tier.leaders, **LEADERS), autolim=False)
    style: dict[str, Any] = {"fontsize": tier.font, "family": fonts(), "parse_math": False}
    style |= {"rotation": 90, "va": "bottom"} if tier.turned else {"va": "center"}
    for label, height in zip(tier.labels, tier.heights, strict=True):
        axes.text(label.place, height, label.text, ha="center", **style)


def _label_rows(axes: Axes, labels: Sequence[Label], height: float) -> None:
    """Write labels left of the rows, without overlap, each with a line to its row."""
    axes.set_yticks([])
    if not labels:
        return
    unit = height / axes.get_ylim()[0]  # inches per row; the last one is at the bottom
    font = float(np.clip(height / len(labels) / POINT / LEADING, *FONT))
    labels = labels[:: ceil(LEADING * font * POINT * len(labels) / height)]
    places = np.array([label.place for label in labels])
    apart = move_apart(places * unit, LEADING * font * POINT, height) / unit
    across = axes.get_yaxis_transform()  # parts of the panel's width, rows
    inch = 1 / axes.get_position().width
    leader = LEADER * inch if np.abs(apart - places).max() * unit > POINT else POINT * inch
    lines = [[(0, at), (-leader, to)] for at, to in zip(places, apart, strict=True)]
    axes.add_collection(
        LineCollection(lines, transform=across, clip_on=False, **LEADERS),
        autolim=False,
    )
    style: dict[str, Any] = {"fontsize": font, "family": fonts(), "parse_math": False}
    style |= {"transform": across, "ha": "right", "va": "center"}
    for label, place in zip(labels, apart.tolist(), strict=True):
        axes.text(-leader - 2 * POINT * inch, place, label.text, **style)


def _colour_bar(
    figure: Figure, image: AxesImage, left: float, bottom: float, height: float, label: str
) -> None:
    """Draw a colour bar to the right of a panel that ends at `left`."""
    bar = figure.colorbar(image, cax=_axes(figure, left + GAP, bottom, BAR, height))
    bar.set_label(label, fontsize=FONT[1])
    bar.ax.tick_params(labelsize=FONT[1] - 1)
    bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=max(2, min(5, round(3 * height)))))


def _write_title(axes: Axes, title: str | None, width: float) -> None:
    if title:
        lines = textwrap.wrap(title, max(20, round(width * 12)))
        style: dict[str, Any] = {"family": fonts(), "parse_math": False}
        axes.set_title("\n".join(lines), loc="left", fontsize=FONT[1] + 2, **style)


# text positions


def _rows_height(rows: int, labels: int) -> float:
    return float(np.clip(max(rows * THIN_ROW, labels * ROW), *ROWS_HEIGHT))


# matplotlib, without its global state


def new_figure() -> Figure:
    """Return an empty figure without matplotlib's global state."""
    # One inch by one inch, so that positions in inches equal positions as shares of the figure.
    return Figure(figsize=(1, 1), dpi=DOTS, facecolor="white")


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    axes = figure.add_axes((left, bottom, width, height))
    axes.tick_params(labelsize=FONT[1])
    return axes


def _checked(weights: ArrayLike, rows: int, columns: int | None = None) -> NDArray[np.float64]:
    """Return weights as an array of the expected shape, with at least one row and column."""
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 2 or len(array) != rows or columns not in (None, array.shape[1]):
        wanted = f"({rows}, {'T' if columns is None else columns})"
        raise ValueError(f"weights must be {wanted} to fit the labels, got {array.shape}")
    return array if array.size else np.zeros((max(rows, 1), max(array.shape[1], 1)))


def save(figure: Figure, path: Path | str) -> None:
    """Write a figure including labels outside its panels; the ending of the path sets the format.

    Raises UserError if it cannot be written, or not in this format.
    """
    ending = Path(path).suffix[1:].lower()
    formats = figure.canvas.get_supported_filetypes()
    if ending not in formats:
        raise UserError(f"{path}: cannot draw {ending or 'without an ending'!r}, use .png or .svg")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            figure.savefig(path, dpi=DOTS, bbox_inches="tight", pad_inches=0.12)
        except OSError as error:
            raise UserError(f"{path}: cannot write the picture: {error.strerror}") from error
    _warn_of_glyphs([str(each.message) for each in found])


def _warn_of_glyphs(messages: Sequence[str]) -> None:
    """Replace matplotlib's warnings of missing glyphs, two lines each, by one line."""
    codes = dict.fromkeys(int(each[1]) for text in messages if (each := _MISSING.match(text)))
    if codes:
        shown = " ".join(map(chr, list(codes)[:8])) + (" …" if len(codes) > 8 else "")
        warn(
            f"no installed font has {shown}; install one that does, for Chinese and Japanese such "
            "as fonts-noto-cjk of Debian"
        )
