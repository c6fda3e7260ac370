"""The device of a run."""

import pytest
import torch

from asr.errors import UserError
from asr.runtime.device import choose_device

CPU = torch.device("cpu")


def test_a_device_unknown_to_torch_is_refused():
    assert choose_device("cpu") == CPU
    with pytest.raises(UserError, match="device 'abacus' is not known to torch"):
        choose_device("abacus")


@pytest.mark.parametrize("name", ["cuda", "cuda:2"])
def test_a_device_that_is_not_there_is_one_line(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0 if name == "cuda" else 2)
    with pytest.raises(UserError, match=rf"device '{name}': torch .* finds \d CUDA") as caught:
        choose_device(name)
    assert "\n" not in str(caught.value)


def test_a_device_that_is_there_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UserError, match="'meta' is not supported"):
        choose_device("meta")
