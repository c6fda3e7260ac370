"""The precision of matrix products in training."""

import time

import pytest
import torch

from asr.training import precision as precision_module
from asr.training.precision import multiplies_bf16, products

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("precision", "fast", "wanted"),
    [
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
        ("bf16", False, torch.bfloat16),
        ("fp32", True, torch.float32),
    ],
)
def test_products_are_as_fine_as_asked_for(monkeypatch, precision, fast, wanted):
    monkeypatch.setattr(precision_module, "multiplies_bf16", lambda device: fast)
    with products(CPU, precision):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == wanted


def test_by_itself_a_processor_takes_what_it_is_not_slow_at():
    left, right = torch.randn(256, 512), torch.randn(512, 512)

    def seconds(precision: str) -> float:
        taken = []
        with products(CPU, precision):
            for _ in range(7):
                start = time.process_time()
                left @ right
                taken.append(time.process_time() - start)
        return min(taken)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waiting threads would count as CPU time
    auto, fp32 = seconds("auto"), seconds("fp32")
    torch.set_num_threads(threads)
    assert auto < 10 * fp32


def test_devices_without_products_in_16_bits():
    assert not multiplies_bf16(torch.device("meta"))
