"""Which examples go into which batch, and audio that is read once and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Full, Queue
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Made = TypeVar("Made")

JITTER = 0.1  # lengths are sorted with so much noise, so that batches differ between epochs


def repeat(times: float, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return indices of `count` examples, each `times` times: the fraction drawn by chance."""
    whole, fraction = divmod(times, 1.0)
    drawn = np.flatnonzero(random.random(count) < fraction)
    return np.concatenate([np.tile(np.arange(count), int(whole)), drawn]).astype(np.int64)


def plan_batches(
    lengths: Sequence[float],
    size: float,
    most: int,
    random: np.random.Generator,
    short_first: bool = False,
) -> list[list[int]]:
    """Gather examples of like length so that the padded total of a batch stays below `size`.

    lengths: one an example, in the unit of `size`. A single example longer than `size` makes
        a batch of its own. Returns lists of indices, in random order or from short to long.
    """
    noisy = np.asarray(lengths) * random.uniform(1 - JITTER, 1 + JITTER, len(lengths))
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0.0
    for index in np.argsort(noisy, kind="stable").tolist():
        longest = max(longest, lengths[index])
        if batch and (longest * (len(batch) + 1) > size or len(batch) == most):
            batches.append(batch)
            batch, longest = [], lengths[index]
        batch.append(index)
    if batch:
        batches.append(batch)
    if not short_first:
        random.shuffle(batches)
    return batches


class AudioStore:
    """Reads audio files, and keeps them as 16-bit samples up to a number of bytes."""

    def __init__(self, gigabytes: float, read: Callable[[Path], NDArray[np.float32]]) -> None:
        self._left = int(gigabytes * 1e9)
        self._read = read
        self._kept: dict[Path, NDArray[np.int16]] = {}

    def __getitem__(self, path: Path) -> NDArray[np.float32]:
        """Return the samples (S,) in [−1, 1] of a file."""
        kept = self._kept.get(path)
        if kept is not None:
            return kept.astype(np.float32) / np.float32(32768)
        samples = self._read(path)
        if 2 * len(samples) <= self._left:
            self._left -= 2 * len(samples)
            self._kept[path] = np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
            return self[path]  # what is kept, so that the first epoch hears what later ones do
        return samples


def prefetch(items: Sequence[Item], make: Callable[[Item], Made], ahead: int = 4) -> Iterator[Made]:
    """Yield make(item) in order, made in a thread up to `ahead` items early.

    An error in `make` is raised at its item's turn. The thread has ended when the generator is
    closed: one that is still in torch when Python exits aborts the whole process.
    """
    queue: Queue[tuple[Made | None, BaseException | None]] = Queue(maxsize=ahead)
    stopped = threading.Event()

    def put(made: Made | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return queue.put((made, error), timeout=0.1)
            except Full:
                continue

    def work() -> None:
        for item in items:
            if stopped.is_set():
                return
            try:
                put(make(item), None)
            except BaseException as error:
                return put(None, error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        for _ in items:
            made, error = queue.get()
            if error is not None:
                raise error
            yield made  # type: ignore[misc]  # made is None only beside an error
    finally:
        stopped.set()
        thread.join()
