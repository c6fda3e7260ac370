"""Arrays and tensors as samples."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError

MOST_CHANNELS: Final = 64

Samples = NDArray[np.float32]


def takes_rate(source: object) -> bool:
    """Return whether a source is an array or a tensor, whose rate must be given."""
    return isinstance(source, np.ndarray) or _is_tensor(source)


def required_rate(rate: int | None) -> int:
    """Return the rate that was given with an array.

    Raises:
        UserError: it is None or no number.
    """
    if rate is None:
        raise UserError("an array without its sample rate: give it, for instance rate=16000")
    if not isinstance(rate, int | float | np.number):
        raise UserError(f"rate {rate!r}: wanted a number of Hz, for instance rate=16000")
    return rate


def _is_tensor(source: object) -> bool:
    """Return whether a source is a tensor of torch, without importing torch."""
    return any(each.__module__ == "torch" for each in type(source).__mro__)


def samples_of(source: Any) -> Samples:
    """Convert an array (S,) or (S, channels), or a tensor, of real numbers to (S,) float32.

    Raises:
        UserError: another shape or type, or integers of 64 bits.
    """
    array = _array_of(source) if _is_tensor(source) else source
    if array.ndim not in (1, 2):
        raise UserError(f"an array {array.shape}: wanted (samples,) or (samples, channels)")
    if array.ndim == 2 and not 1 <= array.shape[1] <= MOST_CHANNELS:
        raise UserError(
            f"an array of {array.shape[1]:,} channels: wanted (samples, channels), transpose it; "
            "give several recordings as a list"
        )
    if array.dtype.kind not in "fiu":
        raise UserError(f"an array of {array.dtype}: wanted floats in [-1, 1] or integers")
    if array.dtype.kind != "f" and array.dtype.itemsize > 4:
        raise UserError(
            f"an array of {array.dtype}, whose range is not known: convert 16-bit samples by "
            "astype('int16'), or divide them by 32768"
        )
    samples = array if array.ndim == 1 else array.mean(axis=1, dtype=np.float64)
    if array.dtype.kind != "f":
        half = 2.0 ** (8 * array.dtype.itemsize - 1)
        samples = samples.astype(np.float64) / half - (array.dtype.kind == "u")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, which is refused later
        return np.ascontiguousarray(samples, dtype=np.float32)


def _array_of(tensor: Any) -> NDArray[Any]:
    """Return a tensor (S,) or (channels, S) as an array (S,) or (S, channels)."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        tensor = tensor.float()  # NumPy has no bfloat16
    array: NDArray[Any] = tensor.numpy()
    return array.T
