"""Compile the Triton kernels for GPUs of two generations; no GPU is needed.

`test_triton_kernel.py` runs this file in a process of its own. Triton's types and memory, which its
interpreter does not check, are then checked by its compiler. Prints a line for each kernel.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from asr.attention.triton_kernel import additive_attention

SHARED_OF_A_BLOCK = 99 * 1024  # bytes, on the smallest GPUs since sm_80


class NoGPU:
    """Stands for the driver of a GPU that is not there."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return self.target.arch

    def get_current_stream(self, device: int) -> int:
        return 0


def attend(dtype: torch.dtype, features: int) -> None:
    """Call the forward and the backward pass as a training step does."""
    batch, queries, length, size, width = 2, 1, 200, 128, 576

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(dtype).requires_grad_()

    tensors = [random(batch, queries, size), random(batch, length, size)]
    tensors += [random(batch, length, width), torch.randn(size).requires_grad_()]
    options: list[Any] = [None, None, None]
    if features:
        options = [
            torch.zeros(batch, queries, length),
            random(batch, queries, features, length),
            torch.randn(size, features).requires_grad_(),
        ]
    allowed = torch.ones(batch, 1, length, dtype=torch.bool)
    context, weights = additive_attention(*tensors, allowed, *options)
    (context.float().sum() + weights.sum()).backward()


def compile_instead(self: JITFunction[Any], *args: Any, grid: Any, **options: Any) -> None:
    """Compile a kernel for the arguments of a launch, without the launch."""
    kernel = RUN(self, *args, grid=grid, **{**options, "warmup": True})
    assert kernel.metadata.shared <= SHARED_OF_A_BLOCK
    print(kernel.metadata.target.arch, kernel.name, args[0].dtype, kernel.metadata.shared)


RUN = JITFunction.run

if __name__ == "__main__":
    with mock.patch.object(JITFunction, "run", compile_instead):
        for capability in (80, 90):
            driver.set_active(NoGPU(capability))
            for dtype, features in ((torch.float32, 0), (torch.bfloat16, 10)):
                attend(dtype, features)
