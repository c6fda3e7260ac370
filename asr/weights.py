"""The weights of a model folder, as they are stored and as NumPy computes with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load

from asr.checksums import read_verified
from asr.errors import UserError

SCALE = ".scale"  # suffix: the factors of a matrix of 8 bits or less; see `StoredWeights`

Array = NDArray[Any]


class Packed(NamedTuple):
    """A matrix of I inputs and O outputs, in a quarter of the memory if it is stored in few bits.

    numbers: (I, O), int8 with factors, float32 without. factors: (groups of inputs, O).
    """

    numbers: Array
    factors: NDArray[np.float32] | None = None

    def unpacked(self) -> NDArray[np.float32]:
        """Return the matrix (I, O), contiguous; without factors it is not a copy."""
        value = self.numbers.astype(np.float32, copy=False)
        if self.factors is not None:
            grouped = value.reshape(len(self.factors), -1, value.shape[-1])
            grouped *= self.factors[:, None]
        return value


class StoredWeights(Mapping[str, Array]):
    """Weights by their names. One of 8 bits or less is unpacked to float32 whenever asked for.

    So a model that copies each into the form it computes with is not in memory twice. In 8 bits
    (int8) a weight has one factor a row. In fewer (uint8) it is (bits, rows, columns / 8), a bit
    of each number in each plane, and each row has a factor for every group of columns.
    """

    def __init__(self, stored: Mapping[str, Array], packed: Collection[str] = ()) -> None:
        """Take arrays as they are in the file; packed: see `read_arrays`.

        Raises:
            ValueError: the factors of an array do not fit it.
        """
        self._stored = stored
        scaled = [name for name in stored if name + SCALE in stored and name not in packed]
        for name in scaled:
            if not _fits(stored[name], stored[name + SCALE]):
                raise ValueError(f"{name + SCALE} does not fit {name}")
        self._scales = {name: stored[name + SCALE] for name in scaled}
        self._hidden = {name + SCALE for name in scaled}

    def __getitem__(self, name: str) -> Array:
        """Return a weight."""
        if name in self._hidden:
            raise KeyError(name)
        stored = self._stored[name]
        if name not in self._scales:
            return stored
        scale = self._scales[name]
        if stored.dtype == np.uint8:
            return _from_planes(stored, scale)
        value = stored.astype(np.float32)
        value *= scale.reshape(-1, *[1] * (value.ndim - 1))
        return value

    def transposed(self, name: str) -> Array:
        """Return a matrix (rows, columns) as (columns, rows), contiguous, in float32."""
        return self.packed(name).unpacked()

    def packed(self, name: str, order: Sequence[slice] = (slice(None),)) -> Packed:
        """Return a matrix (rows, columns) as (columns, rows), not unpacked.

        It is turned as bytes, which takes a quarter of the time that float32 takes.
        order: parts of its rows, in the order in which they become columns.
        """
        if name in self._hidden:
            raise KeyError(name)
        numbers, scale = self._stored[name], self._scales.get(name)
        if scale is not None and numbers.dtype == np.uint8:
            numbers = _numbers(numbers)
        turned = np.ascontiguousarray(_rows(numbers, order).T)
        if scale is None:
            return Packed(turned.astype(np.float32, copy=False))
        factors = _rows(scale, order).astype(np.float32)
        return Packed(turned, np.ascontiguousarray(factors.reshape(len(factors), -1).T))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight as it is unpacked, by name."""
        found = {name: self._stored[name].shape for name in self}
        for name in self._scales:
            if self._stored[name].dtype == np.uint8:
                _, rows, eighths = found[name]
                found[name] = rows, 8 * eighths
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return (name for name in self._stored if name not in self._hidden)

    def __len__(self) -> int:
        """Return the number of weights."""
        return len(self._stored) - len(self._hidden)


def _rows(matrix: Array, order: Sequence[slice]) -> Array:
    """Return a copy of these parts of a matrix's rows, one after another."""
    return np.concatenate([matrix[part] for part in order])


def _fits(stored: Array, scale: Array) -> bool:
    """Return whether factors fit an array of 8 bits, (rows,), or of fewer, (rows, groups)."""
    if stored.dtype != np.uint8:
        return scale.shape == stored.shape[:1]
    if stored.ndim != 3 or scale.ndim != 2 or len(scale) != stored.shape[1]:
        return False
    return 0 < len(stored) < 8 and scale.size > 0 and 8 * stored.shape[2] % scale.shape[1] == 0


def _from_planes(stored: Array, scale: Array) -> Array:
    """Unpack bytes (bits, rows, columns / 8) with factors (rows, groups) to (rows, columns)."""
    value = _numbers(stored).astype(np.float32)
    grouped = value.reshape(*scale.shape, -1)
    grouped *= scale.astype(np.float32)[:, :, None]
    return value


def _numbers(stored: Array) -> NDArray[np.int8]:
    """Return the numbers of bytes (bits, rows, columns / 8) as (rows, columns)."""
    whole = np.unpackbits(stored[-1], axis=1)
    for plane in stored[-2::-1]:
        whole <<= 1
        whole |= np.unpackbits(plane, axis=1)
    return whole.view(np.int8) - np.int8(2 ** (len(stored) - 1))


def read_arrays(file: Path, packed: Collection[str] = ()) -> StoredWeights:
    """Read weights by their names, those of 8 bits or less unpacked to float32.

    packed: names that stay in 8 bits, each with its factors (rows,) under the name + `SCALE`.

    Raises:
        UserError: the file is missing or damaged, or holds numbers that are not finite.
    """
    try:
        arrays = load(read_verified(file))
        for name, value in arrays.items():
            if not is_finite(value):
                raise UserError(f"{file}: damaged: {name} holds numbers that are not finite")
        return StoredWeights(arrays, packed)
    except FileNotFoundError as error:
        raise UserError(f"{file}: no weights there") from error
    except UserError:
        raise
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: damaged or not safetensors: {error}") from error


def is_finite(value: Array) -> bool:
    """Return whether an array holds neither NaN nor an infinity."""
    if value.dtype == np.float16:  # by its exponent: ten times as fast as `isfinite`
        return not ((value.view(np.uint16) & 0x7C00) == 0x7C00).any()
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())
