"""Penalties: known values on constructed weights, and the sign of each."""

import math

import pytest
import torch

from asr.attention.penalties import (
    coverage_penalty,
    diagonality_penalty,
    entropy,
    entropy_penalty,
)

STEPS = torch.tensor([[True, True, True, False]])


def diagonal(steps=4, length=4):
    return torch.eye(length)[:steps][None]


def test_entropy_is_zero_when_sharp_and_log_t_when_flat():
    assert entropy(torch.tensor([0.0, 1.0, 0.0])).item() == pytest.approx(0, abs=1e-6)
    assert entropy(torch.full((8,), 1 / 8)).item() == pytest.approx(math.log(8))


def test_entropy_penalty_measures_the_distance_to_its_target_on_counted_steps_only():
    weights = diagonal()
    weights[0, 3] = 1 / 4  # a padded step
    assert entropy_penalty(weights, STEPS).item() == pytest.approx(0, abs=1e-6)
    assert entropy_penalty(weights, STEPS, target=0.5).item() == pytest.approx(0.5)


def test_descending_the_entropy_penalty_sharpens():
    energies = torch.tensor([[[0.3, 0.1, 0.0]]], requires_grad=True)
    steps = torch.tensor([[True]])
    before = entropy_penalty(torch.softmax(energies, -1), steps)
    before.backward()
    after = entropy_penalty(torch.softmax(energies - 0.5 * energies.grad, -1), steps)
    assert after < before


def test_diagonality_is_small_on_the_diagonal_and_large_against_it():
    steps = torch.ones(1, 4, dtype=torch.bool)
    lengths = torch.tensor([4])
    assert diagonality_penalty(diagonal(), steps, lengths).item() == pytest.approx(0, abs=1e-6)
    assert diagonality_penalty(diagonal().flip(2), steps, lengths) > 0.5


def test_diagonality_is_measured_by_each_utterance_s_own_length():
    weights = torch.zeros(1, 4, 8)
    weights[0, :, :4] = torch.eye(4)
    steps = torch.ones(1, 4, dtype=torch.bool)
    assert diagonality_penalty(weights, steps, torch.tensor([4])) < 1e-6
    assert diagonality_penalty(weights, steps, torch.tensor([8])) > 0.1


def test_coverage_counts_what_was_already_read():
    assert coverage_penalty(diagonal(), STEPS).item() == 0
    stuck = torch.zeros(1, 4, 4)
    stuck[..., 0] = 1
    assert coverage_penalty(stuck, STEPS).item() == pytest.approx(2 / 3)  # all but the first step
