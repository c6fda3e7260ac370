"""Where a model computes."""

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
