"""The cross-entropy of an output layer equals torch's in value and gradient, for any block size."""

import pytest
import torch
from torch.nn import functional

from asr.training.losses import cross_entropy as module
from asr.training.losses.cross_entropy import cross_entropy


def given(count=7, dtype=torch.float64, scale=1.0):
    torch.manual_seed(3)
    shapes = (count, 4), (11, 4), (11,)
    layers = [(scale * torch.randn(shape)).to(dtype).requires_grad_() for shape in shapes]
    return layers, torch.randint(0, 11, (count,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("at_once", [1, 25, 10**6])  # logits: 1, 2 or all positions
def test_value_and_gradients_are_those_of_torch(monkeypatch, at_once, smoothing):
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", at_once)
    layers, targets = given()
    found = cross_entropy(*layers, targets, smoothing).loss
    wanted = functional.cross_entropy(
        functional.linear(*layers), targets, label_smoothing=smoothing
    )
    torch.testing.assert_close(found, wanted)
    found_gradients = torch.autograd.grad(3 * found, layers)
    for one, other in zip(found_gradients, torch.autograd.grad(3 * wanted, layers), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("at_once", [1, 50, 10**6])  # logits: of 1, 2 or all pairs
def test_consistency_is_the_symmetric_divergence_of_the_two_halves(monkeypatch, at_once):
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", at_once)
    layers, _ = given(count=10)
    targets = torch.randint(0, 11, (5,)).repeat(2)
    loss, inconsistency, _ = cross_entropy(*layers, targets, 0.1, consistency=2.5)
    logits = functional.linear(*layers)
    p, q = functional.log_softmax(logits, dim=1).chunk(2)
    both = [
        functional.kl_div(a, b, log_target=True, reduction="batchmean") for a, b in ((p, q), (q, p))
    ]
    torch.testing.assert_close(inconsistency, sum(both) / 2)
    plain = functional.cross_entropy(logits, targets, label_smoothing=0.1)
    wanted = plain + 2.5 * sum(both) / 2
    torch.testing.assert_close(loss, wanted)
    found = torch.autograd.grad(3 * loss, layers)
    for one, other in zip(found, torch.autograd.grad(3 * wanted, layers), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("at_once", [1, 25, 10**6])
def test_weights_multiply_the_loss_of_each_target(monkeypatch, at_once):
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", at_once)
    layers, targets = given()
    weights = torch.linspace(-1.0, 2.0, 7, dtype=torch.float64)
    found = cross_entropy(*layers, targets, 0.1, weights=weights).loss
    each = functional.cross_entropy(
        functional.linear(*layers), targets, label_smoothing=0.1, reduction="none"
    )
    wanted = (weights * each).mean()
    torch.testing.assert_close(found, wanted)
    found_gradients = torch.autograd.grad(3 * found, layers)
    for one, other in zip(found_gradients, torch.autograd.grad(3 * wanted, layers), strict=True):
        torch.testing.assert_close(one, other)


def test_halves_that_agree_are_consistent():
    layers, targets = given()
    layers[0] = layers[0].detach().repeat(2, 1).requires_grad_()
    assert cross_entropy(*layers, targets.repeat(2), consistency=1.0).inconsistency == 0


def test_logits_beyond_what_exp_can_hold_are_no_trouble():
    layers, targets = given(dtype=torch.float32, scale=100.0)
    found = cross_entropy(*layers, targets).loss
    torch.testing.assert_close(found, functional.cross_entropy(functional.linear(*layers), targets))
    assert all(each.isfinite().all() for each in torch.autograd.grad(found, layers))


def test_the_likeliest_are_counted():
    layers, targets = given()
    best = functional.linear(*layers).argmax(1)
    assert cross_entropy(*layers, best).right == 7
    assert cross_entropy(*layers, targets).right == (best == targets).sum()


def test_without_any_target_there_is_neither_loss_nor_gradient():
    layers, targets = given(count=0)
    for consistency in (0.0, 1.0):
        loss, inconsistency, right = cross_entropy(*layers, targets, 0.1, consistency)
        assert loss == 0 and inconsistency == 0 and right == 0
        assert not torch.autograd.grad(loss, layers)[1].any()


@pytest.mark.parametrize("consistency", [0.0, 0.5])
def test_autocast_has_16_bits_in_the_products_alone(consistency):
    layers, targets = given(count=8, dtype=torch.float32)
    exact = cross_entropy(*layers, targets, 0.1, consistency).loss
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy(*layers, targets, 0.1, consistency).loss
    assert loss.dtype == torch.float32 and loss != exact
    torch.testing.assert_close(loss, exact, atol=2e-2, rtol=0)
    gradients = torch.autograd.grad(loss, layers)
    for found, wanted in zip(gradients, torch.autograd.grad(exact, layers), strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, wanted, atol=2e-2, rtol=0)
