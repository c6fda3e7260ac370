"""The attention window of known weights is that of the mechanism."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from asr.alignment.window import check_window, distances, region
from asr.attention.contract import Alignment
from asr.attention.masks import Window
from asr.models.settings import AttentionSettings

SETTINGS = AttentionSettings(window_back=2, window_ahead=3)


def weights(steps: int, annotations: int) -> np.ndarray:
    random = np.random.default_rng(steps)
    drawn = random.random((steps, annotations)).astype(np.float32) ** 4
    return drawn / drawn.sum(1, keepdims=True)


@pytest.mark.parametrize("centre", ["median", "expectation"])
def test_the_region_of_each_step_is_the_window_around_the_previous_one(centre):
    given = weights(7, 12)
    found = region(given, replace(SETTINGS, window_centre=centre))
    window = Window(2, 3, centre=centre)
    everywhere = torch.ones(1, 1, 12, dtype=torch.bool)
    last = torch.zeros(1, 1, 12)
    for row, allowed in zip(given, found, strict=True):
        _, wanted = window.apply(torch.zeros(1, 1, 12), everywhere, Alignment(last, last))
        assert allowed.tolist() == wanted[0, 0].tolist()
        last = torch.from_numpy(row)[None, None]


def test_before_the_first_step_the_window_is_at_the_first_annotation():
    assert np.flatnonzero(region(weights(1, 12), SETTINGS)[0]).tolist() == [0, 1, 2, 3]


def test_distances_count_from_the_centre():
    given = np.array([[0, 0.2, 0.6, 0.2], [0, 0, 0, 0]], np.float32)
    assert distances(given, "median").tolist() == [[-2, -1, 0, 1], [0, 1, 2, 3]]
    assert distances(given, "expectation")[0] == pytest.approx([-2, -1, 0, 1])


@pytest.mark.parametrize(("back", "ahead"), [(2, 0), (0, 2)])
def test_a_window_to_one_side_is_refused(back, ahead):
    with pytest.raises(ValueError, match=f"got back={back}, ahead={ahead}"):
        check_window(replace(SETTINGS, window_back=back, window_ahead=ahead))
    check_window(SETTINGS)
