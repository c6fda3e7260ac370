"""Pictures: one time axis for all panels, no overlapping text, and a file for any input."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from numpy.typing import NDArray

from asr.errors import UserError
from asr.render import picture, spectrogram
from asr.render.picture import draw_alignment, draw_heat_map, draw_weights
from asr.render.places import MOST_CHARACTERS, assign_lanes, move_apart, row_labels
from asr.results import Span

SECONDS = 0.08  # duration of an annotation
RATE = 16_000
quick = settings(max_examples=40, deadline=None)
inches = st.floats(0, 9)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Collect figures instead of writing files."""
    figures: list[Figure] = []
    monkeypatch.setattr(picture, "save", lambda figure, path: figures.append(figure))
    return figures


def say(count: int, spacing: float) -> tuple[list[Span], list[str], NDArray[np.float64], float]:
    """Return words of different lengths, their symbols, diagonal weights, and the duration."""
    texts = [("a", "word", "incomprehensible")[at % 3] for at in range(count)]
    spans = [Span(text, at * spacing, (at + 0.9) * spacing) for at, text in enumerate(texts)]
    labels = [*" ".join(texts), "<eos>"]
    duration = count * spacing
    places = np.linspace(0, duration / SECONDS, len(labels))
    columns = np.arange(round(duration / SECONDS) + 1)
    return spans, labels, np.exp(-np.square(columns - places[:, None])), duration


def lit(pixels: NDArray[np.float32], rows: slice) -> float:
    """Return the middle column of the bright pixels in some rows, left of the colour bars."""
    bright = pixels[rows, : int(pixels.shape[1] * 0.85), :3].sum(2).max(0)
    inside = np.flatnonzero((bright > 1.5) & (bright < 2.9))  # neither background nor white paper
    return float(inside.mean())


def test_a_sound_stands_above_the_weight_that_looks_at_it(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).normal(size=4 * RATE).astype(np.float32) * 1e-5
    samples[int(2.96 * RATE) : int(3.04 * RATE)] *= 1e4  # annotation 37
    weights = np.eye(50)[[37] * 9]
    path = tmp_path / "burst.png"
    draw_alignment(path, samples, weights, ["incomprehensible"] * 9, [], SECONDS, 4.0)
    pixels = imread(path)
    height = len(pixels)
    above = lit(pixels, slice(int(0.1 * height), int(0.3 * height)))
    below = lit(pixels, slice(int(0.55 * height), int(0.8 * height)))
    assert above == pytest.approx(below, abs=5)  # at about 160 pixels per second


@pytest.mark.parametrize(("count", "spacing"), [(4, 0.5), (12, 0.4), (40, 0.3), (250, 0.12)])
def test_no_text_lies_on_another(drawn: list[Figure], count: int, spacing: float) -> None:
    spans, labels, weights, duration = say(count, spacing)
    draw_alignment("x.png", np.zeros(RATE, np.float32), weights, labels, spans, SECONDS, duration)
    (figure,) = drawn
    sound, _, tier, below, _ = figure.axes
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axes, fewest in ((tier, count / 2), (below, count / 3)):
        texts = [text for text in axes.texts if text.get_text()]
        assert len(texts) >= fewest
        assert all(text.get_fontsize() >= 4.5 for text in texts)
        boxes = [text.get_window_extent(renderer).padded(-1) for text in texts]
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    panels = {(axes.get_position().x0, axes.get_position().width) for axes in (sound, tier, below)}
    assert len(panels) == 1
    assert {axes.get_xlim() for axes in (sound, tier, below)} == {(0, duration)}


def test_words_stand_above_their_rows_in_time(drawn: list[Figure]) -> None:
    spans, labels, weights, duration = say(3, 1.0)
    draw_alignment("x.png", np.zeros(0, np.float32), weights, labels, spans, SECONDS, duration)
    tier = drawn[0].axes[2]
    assert [text.get_text() for text in tier.texts] == [span.text for span in spans]
    middles = [(span.start + span.end) / 2 for span in spans]
    assert [text.get_position()[0] for text in tier.texts] == pytest.approx(middles)


def test_words_that_do_not_fit_have_a_line_to_their_time(drawn: list[Figure]) -> None:
    spans, labels, weights, duration = say(60, 0.12)
    duration += 30  # a long pause, in which labels are written
    draw_alignment("x.png", np.zeros(0, np.float32), weights, labels, spans, SECONDS, duration)
    tier = drawn[0].axes[2]
    places = np.array([text.get_position()[0] for text in tier.texts])
    middles = np.array([(span.start + span.end) / 2 for span in spans])
    lines = np.array(tier.collections[0].get_segments())  # (N, 2, 2)
    np.testing.assert_allclose(lines[:, 0, 0], middles)
    np.testing.assert_allclose(lines[:, 1, 0], places)
    assert np.abs(places - middles).max() > 1


def test_nothing_said_and_nothing_heard(drawn: list[Figure]) -> None:
    nothing = np.zeros(0, np.float32)
    draw_alignment("x.png", nothing, np.zeros((0, 0)), [], [], SECONDS, 0.0)
    draw_alignment("x.png", nothing, np.zeros((2, 9)), ["a", "<eos>"], [], SECONDS, 1.0)
    draw_weights("x.png", np.zeros((0, 9)), [])
    for figure in drawn:
        FigureCanvasAgg(figure).draw()
    assert {figure.axes[-2].images[0].get_clim() for figure in drawn} == {(0, 1)}
    silence = drawn[1].axes[0].images[0].get_array()
    assert silence is not None and silence.max() < -spectrogram.DECIBELS  # black, not the loudest


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.PDF"])
def test_files_and_signs_that_are_not_formulas(tmp_path: Path, name: str) -> None:
    labels = ["$", "\\frac", "$", "é", " ", "<eos>"]
    draw_weights(tmp_path / name, np.eye(6), labels, "costs $\\frac and $")
    assert (tmp_path / name).stat().st_size > 1000


def test_a_picture_that_cannot_be_written_is_a_users_mistake(tmp_path: Path) -> None:
    for name, wanted in (("x.mp3", "'mp3'"), ("x", "png"), ("no/folder/x.png", "No such file")):
        with pytest.raises(UserError, match=wanted):
            draw_weights(tmp_path / name, np.eye(2), ["a", "b"])


def test_weights_of_other_labels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(3, T\) to fit the labels, got \(2, 2\)"):
        draw_weights("x.png", np.eye(2), ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"must be \(2, 3\) to fit the labels, got \(2, 2\)"):
        draw_heat_map("x.png", np.eye(2), ["a", "b", "c"], ["a", "b"])


@pytest.mark.parametrize("size", [1, 9, 120])
def test_heat_map(drawn: list[Figure], size: int) -> None:
    source = [f"▁source{at}" for at in range(size)] + ["<eos>"]
    target = [f"▁ziel{at}" for at in range(size)]
    draw_heat_map("x.png", np.eye(size, size + 1), source, target, "Übersetzung")
    axes = drawn[0].axes[0]
    renderer = FigureCanvasAgg(drawn[0]).get_renderer()
    drawn[0].draw(renderer)

    def texts(labels: list[Text]) -> list[str]:
        return [label.get_text() for label in labels if label.get_visible()]

    assert texts(axes.get_xticklabels()) == [*source[:-1], "\N{RETURN SYMBOL}"]
    assert {label.get_rotation() for label in axes.get_xticklabels()[:-1]} == {60}
    assert axes.get_xticklabels()[-1].get_rotation() == 0
    assert texts(axes.get_yticklabels()) == target
    boxes = [label.get_window_extent(renderer).padded(-1) for label in axes.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@quick
@given(st.lists(inches, min_size=1, max_size=30).map(sorted), st.floats(0.01, 1))
def test_move_apart(places: list[float], gap: float) -> None:
    moved = move_apart(np.array(places), gap, 9.0)
    fitting = min(gap, 9.0 / len(places))
    assert (np.diff(moved) > fitting - 1e-9).all()
    assert moved[0] >= fitting / 2 - 1e-9 and moved[-1] <= 9 - fitting / 2 + 1e-9
    np.testing.assert_allclose(move_apart(moved, gap, 9.0), moved)  # no further than necessary


@quick
@given(st.lists(st.tuples(inches, st.floats(0, 3)), max_size=20).map(sorted))
def test_lanes(texts: list[tuple[float, float]]) -> None:
    chosen = assign_lanes([middle for middle, _ in texts], [size for _, size in texts], gap=0.1)
    for one, other in combinations(zip(texts, chosen, strict=True), 2):
        (middle, size), (next_middle, next_size) = one[0], other[0]
        if one[1] == other[1]:
            assert middle + size / 2 < next_middle - next_size / 2
    assert not chosen or chosen[0] == 0


def test_rows_are_labelled_by_words_where_they_are_many() -> None:
    few = row_labels(["a", " ", "<eos>"])
    assert few == [("a", 0.5), ("␣", 1.5), ("⏎", 2.5)]
    many = row_labels([*"ab c ", *"d" * MOST_CHARACTERS, "<eos>"])
    assert [label.text for label in many] == ["ab", "c", "d" * MOST_CHARACTERS, "⏎"]
    assert [label.place for label in many] == [1.0, 3.5, 5 + MOST_CHARACTERS / 2, 65.5]
    pieces = [f"▁piece{at}" for at in range(MOST_CHARACTERS + 1)]
    assert [label.text for label in row_labels(pieces)] == pieces


def test_matplotlib_waits_until_something_is_drawn() -> None:
    program = (
        "import sys, asr.render.subtitles, asr.render.tables\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import asr.render.picture\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
