"""Grouping of examples into batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

JITTER: Final = 0.1  # relative noise on the sorted lengths, so that batches differ between epochs


def batch_by_length(
    lengths: Sequence[float],
    size: float,
    most: int | None = None,
    order: Iterable[int] | None = None,
) -> list[list[int]]:
    """Group examples of similar length, so that the padded total of each batch is at most `size`.

    lengths: of the examples, in the unit of `size`; an example longer than `size` forms a batch
        alone. most: largest number of examples in a batch; None means any. order: the indices to
        group, in the order in which batches are filled; None means all, from short to long.

    Returns lists of indices.
    """
    if order is None:
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches: list[list[int]] = []
    longest = 0.0
    for index in order:
        longest = max(longest, lengths[index])
        batch = batches[-1] if batches else []
        if batch and longest * (len(batch) + 1) <= size and len(batch) != most:
            batch.append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches


def plan_batches(
    lengths: Sequence[float],
    size: float,
    most: int,
    random: np.random.Generator,
    short_first: bool = False,
) -> list[list[int]]:
    """Return the batches of an epoch, as `batch_by_length`, but different in each epoch.

    short_first: keep the batches from short to long; otherwise they are shuffled.
    """
    noisy = np.asarray(lengths) * random.uniform(1 - JITTER, 1 + JITTER, len(lengths))
    batches = batch_by_length(lengths, size, most, np.argsort(noisy, kind="stable").tolist())
    if not short_first:
        random.shuffle(batches)
    return batches


def repeat(times: float, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the indices of `count` examples, each `times` times; fractions are drawn at random."""
    whole, fraction = divmod(times, 1.0)
    drawn = np.flatnonzero(random.random(count) < fraction)
    return np.concatenate([np.tile(np.arange(count), int(whole)), drawn]).astype(np.int64)
