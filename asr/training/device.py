"""Where a run computes, and how finely."""

from __future__ import annotations

import torch

from asr.errors import UserError


def choose_device(name: str) -> torch.device:
    """Return the device of a name; "auto" takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device {name!r} is not known to torch; use auto, cpu or cuda") from error


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether a device has instructions for products in 16 bits.

    A processor without them (x86 before AVX-512) makes such a product some seventy times slower
    than one in 32 bits.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return False


def products(device: torch.device, precision: str) -> torch.autocast:
    """Return the context in which products have a precision: of `TrainingSettings.precision`."""
    bf16 = precision == "bf16" or (precision == "auto" and multiplies_bf16(device))
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16)
