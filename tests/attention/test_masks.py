"""Masks: exact zeros where attention is not allowed, and windows at the right position."""

import pytest
import torch

from asr.attention import Alignment, Annotations, Window, restrict
from asr.attention.masks import expected_position, median_position, pool_mask


def looked_at(place, length=10, share=1.0):
    weights = torch.zeros(1, 1, length)
    weights[..., place] = share
    weights[..., -1] += 1 - share
    return Alignment(weights, weights)


def test_restrict_forbids_more_and_never_allows():
    mask = torch.tensor([[True, True, False]])
    allowed = torch.tensor([[False, True, True]])
    assert restrict(Annotations(torch.zeros(1, 3, 2), mask), allowed).mask.tolist() == [
        [False, True, False]
    ]


def test_pooled_mask_keeps_an_annotation_if_any_of_its_frames_counts():
    frames = torch.tensor([[0, 0, 0, 1, 0, 0, 1]]).bool()
    assert pool_mask(frames, 3).tolist() == [[False, True, True]]


def test_centres():
    weights = torch.tensor([0.0, 0.6, 0.0, 0.0, 0.4])
    assert expected_position(weights).item() == pytest.approx(0.6 + 1.6)
    assert median_position(weights).item() == 1
    assert median_position(torch.zeros(5)).item() == 0


def test_hard_window_forbids_all_outside_and_changes_no_energy_inside():
    energies = torch.randn(1, 1, 10)
    allowed = torch.ones(1, 1, 10, dtype=torch.bool)
    kept, inside = Window(back=2, ahead=3).apply(energies, allowed, looked_at(4))
    assert torch.equal(kept, energies)
    assert torch.nonzero(inside[0, 0]).flatten().tolist() == [2, 3, 4, 5, 6, 7]


def test_soft_window_lowers_energies_smoothly_and_by_two_at_its_edges():
    energies = torch.zeros(1, 1, 10)
    allowed = torch.ones(1, 1, 10, dtype=torch.bool)
    lowered, same = Window(back=2, ahead=4, soft=True).apply(energies, allowed, looked_at(4))
    assert same.all()
    assert lowered[0, 0, 4] == 0
    assert lowered[0, 0, 2].item() == pytest.approx(-2) == lowered[0, 0, 8].item()
    assert (lowered[0, 0, 4:].diff() < 0).all() and (lowered[0, 0, :5].diff() > 0).all()


def test_median_centre_ignores_a_little_weight_far_away_and_expectation_does_not():
    past = looked_at(1, share=0.8)
    allowed = torch.ones(1, 1, 10, dtype=torch.bool)
    _, by_median = Window(1, 1, centre="median").apply(torch.zeros(1, 1, 10), allowed, past)
    _, by_mean = Window(1, 1, centre="expectation").apply(torch.zeros(1, 1, 10), allowed, past)
    assert torch.nonzero(by_median[0, 0]).flatten().tolist() == [0, 1, 2]
    assert torch.nonzero(by_mean[0, 0]).flatten().tolist() == [2, 3]


def test_a_window_without_any_allowed_place_opens_for_that_step():
    allowed = torch.zeros(1, 1, 10, dtype=torch.bool)
    allowed[..., 8] = True
    _, inside = Window(1, 1).apply(torch.zeros(1, 1, 10), allowed, looked_at(2))
    assert torch.equal(inside, allowed)


def test_windows_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        Window(0, 3)
    with pytest.raises(ValueError, match="expectation"):
        Window(1, 1, centre="mode")
    with pytest.raises(ValueError, match="stride"):
        Window(1, 1, stride=-1)


def test_a_stride_keeps_a_grid_in_sight_besides_the_window():
    energies = torch.randn(1, 1, 10)
    allowed = torch.ones(1, 1, 10, dtype=torch.bool)
    allowed[..., 8] = False
    kept, inside = Window(1, 1, stride=4).apply(energies, allowed, looked_at(5))
    assert torch.equal(kept, energies)
    assert torch.nonzero(inside[0, 0]).flatten().tolist() == [0, 4, 5, 6]
    lowered, same = Window(1, 1, soft=True, stride=4).apply(energies, allowed, looked_at(5))
    assert torch.equal(same, allowed)
    unchanged = (lowered == energies)[0, 0]
    assert torch.nonzero(unchanged).flatten().tolist() == [0, 4, 5, 8]
