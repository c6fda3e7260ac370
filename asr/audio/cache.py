"""Arrays that are computed from audio, kept in files that are named by its content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (S,) at 16 kHz

INT16_SCALE = 32768


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` at the end; several processes may do so at once."""
    unfinished = path.with_name(f"{path.name}.{os.urandom(16).hex()}.part")
    try:
        with unfinished.open("xb") as file:
            yield file
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def in_16_bits(samples: Samples) -> NDArray[np.int16]:
    """Round samples (S,) to 16 bits; those beyond ±1 are clipped."""
    rounded = np.rint(samples * np.float32(INT16_SCALE))
    whole: NDArray[np.int16] = np.clip(rounded, -INT16_SCALE, INT16_SCALE - 1).astype("<i2")
    return whole


def content_key(samples: Samples) -> str:
    """Return the sha256 of samples (S,) rounded to 16 bits, in hexadecimal digits."""
    return hashlib.sha256(in_16_bits(samples).tobytes()).hexdigest()


class ContentCache:
    """A function of samples (S,) → (T, size) whose results are kept on disk.

    Samples are rounded to 16 bits before the function is called, and its results to 16-bit floats
    after it, with a folder or without: what comes back is equal bit by bit whether it was kept or
    not. Threads and processes may share a folder.
    """

    def __init__(
        self,
        folder: Path | None,
        compute: Callable[[Samples], NDArray[np.float32]],
        size: int,
        count: Callable[[int], int] | None = None,
    ) -> None:
        """Make the cache.

        folder: in it are `<xx>/<key>.npy`; None keeps nothing. count: gives T from S; a file of
            another length is then made again.
        """
        self.folder = folder
        self._compute = compute
        self._size = size
        self._count = count

    def __call__(self, samples: Samples) -> NDArray[np.float32]:
        """Return the float32 result of samples (S,); a damaged file is made again."""
        if self.folder is None:
            return self._made(samples).astype(np.float32)
        key = content_key(samples)
        path = self.folder / key[:2] / f"{key}.npy"
        values = self._read(path)
        if values is None or not self._fits(values, len(samples)):
            values = self._made(samples)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                np.save(file, values)
        return values.astype(np.float32)

    def _made(self, samples: Samples) -> NDArray[np.float16]:
        rounded = in_16_bits(samples).astype(np.float32) / np.float32(INT16_SCALE)
        return self._compute(rounded).astype(np.float16)

    @staticmethod
    def _read(path: Path) -> NDArray[np.float16] | None:
        try:
            values: NDArray[np.float16] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return values

    def _fits(self, values: NDArray[np.float16], samples: int) -> bool:
        if values.dtype != np.float16 or values.ndim != 2 or values.shape[1] != self._size:
            return False
        return self._count is None or len(values) == self._count(samples)
