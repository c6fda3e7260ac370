"""The recurrent language model: a distribution, equal for whole texts and word by word."""

import pytest
import torch

from asr.models.language import RecurrentLanguageModel


def make(words, cutoffs):
    torch.manual_seed(3)
    return RecurrentLanguageModel(words, 6, 10, 8, cutoffs).eval()


@pytest.mark.parametrize("cutoffs", [(), (4,), (4, 9), (4, 20), (2, 5, 10)])
def test_words_read_at_once_cost_what_they_cost_one_by_one(cutoffs):
    model = make(12, cutoffs)
    words = torch.randint(12, (3, 7))
    targets = torch.randint(12, (3, 7))
    losses = model(words, targets)
    state = model.start(3)
    for place in range(7):
        log_probs, state = model.step(words[:, place], state)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3))
        expected = -log_probs.gather(-1, targets[:, place, None])[:, 0]
        torch.testing.assert_close(losses[:, place], expected)


def test_rare_words_have_smaller_vectors():
    model = make(12, (4, 9))
    assert [softmax[0].out_features for softmax in model.rarer] == [4, 2]
    assert [softmax[1].out_features for softmax in model.rarer] == [5, 3]
    assert model.first.out_features == 4 + 2


def test_every_group_learns():
    model = make(12, (4, 9))
    model(torch.tensor([[0, 1, 2]]), torch.tensor([[1, 5, 11]])).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in model.parameters())
