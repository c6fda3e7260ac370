"""Dropout equals torch's except for the random draws."""

import pytest
import torch

from asr.models.dropout import Dropout, TokenDropout


@pytest.mark.parametrize("rate", [0.001, 0.3, 0.5])
def test_a_share_is_dropped_and_the_rest_scaled_in_value_and_gradient(rate):
    torch.manual_seed(0)
    inputs = torch.ones(301, 333, requires_grad=True)  # a number of elements not divisible by four
    dropped = Dropout(rate)(inputs)
    share = (dropped == 0).float().mean()
    deviation = (rate * (1 - rate) / inputs.numel()) ** 0.5
    assert abs(share - rate) < 4 * deviation
    torch.testing.assert_close(dropped.unique(), torch.tensor([0, 1 / (1 - rate)]))
    (gradient,) = torch.autograd.grad(dropped.sum(), inputs)
    assert torch.equal(gradient, dropped)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    kept = Dropout(0.5)(torch.ones(80_000)).view(-1, 4) > 0
    pairs = torch.corrcoef(kept.float().T) - torch.eye(4)
    assert pairs.abs().max() < 4 / 20_000**0.5


def test_all_or_nothing_and_evaluation():
    inputs = torch.randn(5, 7)
    assert not Dropout(1.0)(inputs).any()
    assert torch.equal(Dropout(0.0)(inputs), inputs)
    assert torch.equal(Dropout(0.5).eval()(inputs), inputs)


def test_the_draws_are_those_of_torch_s_seed():
    inputs = torch.ones(100)
    first, second = (torch.manual_seed(4) and Dropout(0.5)(inputs) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, Dropout(0.5)(inputs))


def test_tokens_are_dropped_whole_and_the_rest_scaled():
    torch.manual_seed(0)
    inputs = torch.randn(40, 50, 6)
    dropped = TokenDropout(0.2)(inputs)
    gone = (dropped == 0).all(-1)
    assert abs(gone.float().mean() - 0.2) < 4 * (0.2 * 0.8 / 2000) ** 0.5
    torch.testing.assert_close(dropped, torch.where(gone[..., None], 0, inputs / 0.8))
    assert torch.equal(TokenDropout(0.0)(inputs), inputs)
    assert torch.equal(TokenDropout(0.5).eval()(inputs), inputs)
