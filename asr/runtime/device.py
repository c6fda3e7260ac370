"""Where a model computes, and in which precision."""

from __future__ import annotations

import torch

from asr.errors import UserError


def choose_device(name: str) -> torch.device:
    """Return the device of a name: auto, cpu, cuda or cuda:N. auto: a GPU if there is one.

    Raises:
        UserError: torch does not know the device, or this machine does not have it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device {name!r} is not known to torch; use auto, cpu or cuda") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"device {name!r}: torch {torch.__version__} finds {torch.cuda.device_count()} CUDA "
            "devices here; use cpu, or install a CUDA build of torch and a driver"
        )
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device {name!r} is not supported; use auto, cpu or cuda")
    return device


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
