"""The cross-entropy of an output layer is torch's, in value and gradient, in parts or at once."""

import pytest
import torch
from torch.nn import functional

from asr.training import cross_entropy as module
from asr.training.cross_entropy import cross_entropy


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
    found, _ = cross_entropy(*layers, targets, smoothing)
    wanted = functional.cross_entropy(
        functional.linear(*layers), targets, label_smoothing=smoothing
    )
    torch.testing.assert_close(found, wanted)
    found_gradients = torch.autograd.grad(3 * found, layers)
    for one, other in zip(found_gradients, torch.autograd.grad(3 * wanted, layers), strict=True):
        torch.testing.assert_close(one, other)


def test_logits_beyond_what_exp_can_hold_are_no_trouble():
    layers, targets = given(dtype=torch.float32, scale=100.0)
    found, _ = cross_entropy(*layers, targets)
    torch.testing.assert_close(found, functional.cross_entropy(functional.linear(*layers), targets))
    assert all(each.isfinite().all() for each in torch.autograd.grad(found, layers))


def test_the_likeliest_are_counted():
    layers, targets = given()
    best = functional.linear(*layers).argmax(1)
    assert cross_entropy(*layers, best)[1] == 7
    assert cross_entropy(*layers, targets)[1] == (best == targets).sum()


def test_without_any_target_there_is_neither_loss_nor_gradient():
    layers, targets = given(count=0)
    loss, likeliest = cross_entropy(*layers, targets, 0.1)
    assert loss == 0 and likeliest == 0
    assert not torch.autograd.grad(loss, layers)[1].any()


def test_autocast_has_16_bits_in_the_products_alone():
    layers, targets = given(dtype=torch.float32)
    exact, _ = cross_entropy(*layers, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = cross_entropy(*layers, targets, 0.1)
    assert loss.dtype == torch.float32 and loss != exact
    torch.testing.assert_close(loss, exact, atol=2e-2, rtol=0)
    gradients = torch.autograd.grad(loss, layers)
    for found, wanted in zip(gradients, torch.autograd.grad(exact, layers), strict=True):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, wanted, atol=2e-2, rtol=0)
