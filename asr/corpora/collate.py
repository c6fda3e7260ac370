"""Collation of rows of different lengths to a padded array and lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from asr.text.vocabulary import BLANK


class Padded(NamedTuple):
    """values: (B, L), L the greatest length, at least 1. lengths: (B,) int64."""

    values: NDArray[Any]
    lengths: NDArray[np.int64]


def pad_tokens(sequences: Sequence[Sequence[int]], value: int = BLANK) -> Padded:
    """Pad token ids to (B, U) int64."""
    return _pad(sequences, np.int64, value)


def pad_samples(waveforms: Sequence[NDArray[np.float32]]) -> Padded:
    """Pad audio samples to (B, S) float32 with zeros."""
    return _pad(waveforms, np.float32, 0)


def pad_masks(masks: Sequence[NDArray[np.bool_]]) -> Padded:
    """Pad boolean masks to (B, F) with False."""
    return _pad(masks, np.bool_, False)


def unpad(values: Any, lengths: Any) -> list[list[Any]]:
    """Return the rows of padded values (B, L), an array or a tensor, as lists."""
    return [row[:length] for row, length in zip(values.tolist(), lengths.tolist(), strict=True)]


def _pad(rows: Sequence[Sequence[int] | NDArray[Any]], dtype: DTypeLike, value: float) -> Padded:
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.full((len(rows), max(1, int(lengths.max()))), value, dtype)
    for row, into in zip(rows, padded, strict=True):
        into[: len(row)] = row
    return Padded(padded, lengths)
