"""In which precision the matrix products of training run."""

from __future__ import annotations

import torch


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for bf16 matrix products.

    A processor without them (x86 before AVX-512) emulates such a product, about 70 times slower
    than one in 32 bits.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return False


def products(device: torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products run in a precision of `TrainingSettings`."""
    bf16 = precision == "bf16" or (precision == "auto" and multiplies_bf16(device))
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16)
