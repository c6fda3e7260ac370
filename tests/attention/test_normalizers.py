"""Normalisers: the formulas of the papers by position, limits, and randomness."""

import math

import pytest
import torch

from asr.attention.normalizers import (
    NORMALIZERS,
    Hard,
    Smoothed,
    Softmax,
    TopK,
    build_normalizer,
    normalizer_class,
)

ENERGIES = torch.tensor([1.5, -0.5, 0.25, 3.0, 2.0, -4.0])
ALLOWED = torch.tensor([True, True, True, False, True, True])


def shares(scores):
    return torch.tensor([score / sum(scores) for score in scores])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_formulas(temperature):
    pairs = list(zip(ENERGIES.tolist(), ALLOWED.tolist(), strict=True))
    softmax = shares([math.exp(e / temperature) * ok for e, ok in pairs])
    smoothed = shares([ok / (1 + math.exp(-e / temperature)) for e, ok in pairs])
    best = shares([math.exp(e / temperature) * (e in (1.5, 2.0)) for e, _ in pairs])
    for normalizer, wanted in (
        (Softmax(temperature), softmax),
        (Smoothed(temperature), smoothed),
        (TopK(temperature, top_k=2), best),
        (Hard(temperature), torch.tensor([0.0, 0, 0, 0, 1, 0])),
    ):
        torch.testing.assert_close(normalizer(ENERGIES, ALLOWED), wanted)


@pytest.mark.parametrize("name", sorted(NORMALIZERS))
def test_a_temperature_near_zero_leaves_the_best_or_those_above_zero(name):
    weights = build_normalizer(name, 1e-3)(ENERGIES, ALLOWED)
    wanted = shares([1, 0, 1, 0, 1, 0]) if name == "smoothed" else shares([0, 0, 0, 0, 1, 0])
    torch.testing.assert_close(weights, wanted)


def test_top_k_of_all_places_is_the_softmax_and_of_one_is_hard():
    torch.testing.assert_close(TopK(top_k=99)(ENERGIES, ALLOWED), Softmax()(ENERGIES, ALLOWED))
    torch.testing.assert_close(TopK(top_k=1)(ENERGIES, ALLOWED), Hard()(ENERGIES, ALLOWED))


def test_hard_draws_from_the_softmax_in_training_with_torch_s_own_generator():
    many = ENERGIES.expand(20_000, -1)
    torch.manual_seed(0)
    drawn = Hard(2.0)(many, ALLOWED, training=True)
    assert ((drawn == 0) | (drawn == 1)).all() and (drawn.sum(-1) == 1).all()
    wanted = Softmax(2.0)(ENERGIES, ALLOWED)
    torch.testing.assert_close(
        drawn.mean(0), wanted, atol=0.015, rtol=0
    )  # four standard deviations
    torch.manual_seed(0)
    assert torch.equal(drawn, Hard(2.0)(many, ALLOWED, training=True))
    assert torch.equal(Hard()(many, ALLOWED), Hard()(many, ALLOWED))


def test_only_hard_in_training_draws_at_all():
    before = torch.get_rng_state()
    for name, kind in NORMALIZERS.items():
        kind()(ENERGIES, ALLOWED, training=name != "hard")
    assert torch.equal(before, torch.get_rng_state())


def test_hard_has_the_gradient_of_the_softmax_of_the_noisy_energies():
    energies, value = ENERGIES.clone().requires_grad_(), torch.arange(6.0)
    torch.manual_seed(0)
    (Hard()(energies, ALLOWED, training=True) @ value).backward()
    torch.manual_seed(0)
    noisy = (ENERGIES - torch.empty(6).exponential_().log()).requires_grad_()
    (Softmax()(noisy, ALLOWED) @ value).backward()
    torch.testing.assert_close(energies.grad, noisy.grad)
    assert energies.grad[3] == 0 and energies.grad.abs().sum() > 0


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="temperature must be above 0, got 0"):
        Softmax(0.0)
    with pytest.raises(ValueError, match="top_k must be at least 1"):
        TopK(top_k=0)
    with pytest.raises(ValueError, match="hard, smoothed, softmax, top_k"):
        normalizer_class("sparsemax")
