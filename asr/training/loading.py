"""Cache of audio samples, and prefetching of batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Full, Queue
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.training.journal import log_here

MOST_UNREADABLE = 20  # recordings; a disk or a corpus with more needs a person

Item = TypeVar("Item")
Made = TypeVar("Made")


class AudioStore:
    """Reads audio files and caches them as 16-bit samples, up to a limit in gigabytes."""

    def __init__(self, gigabytes: float, read: Callable[[Path], NDArray[np.float32]]) -> None:
        self._left = int(gigabytes * 1e9)
        self._read = read
        self._kept: dict[Path, NDArray[np.int16]] = {}
        self._unreadable: set[Path] = set()

    def readable(self, path: Path) -> NDArray[np.float32] | None:
        """Return the samples (S,) of a file; None if it cannot be read, which is logged once.

        Raises:
            UserError: more than `MOST_UNREADABLE` files could not be read.
        """
        if path in self._unreadable:
            return None
        try:
            return self[path]
        except UserError as error:
            self._unreadable.add(path)
            count = len(self._unreadable)
            if count > MOST_UNREADABLE:
                raise UserError(f"{error}; with it {count} recordings cannot be read") from error
            log_here(f"{error}; left out ({count} so far, at most {MOST_UNREADABLE})")
            return None

    def __getitem__(self, path: Path) -> NDArray[np.float32]:
        """Return the samples (S,) in [−1, 1] of a file."""
        kept = self._kept.get(path)
        if kept is not None:
            return kept.astype(np.float32) / np.float32(32768)
        samples = self._read(path)
        if 2 * len(samples) <= self._left:
            self._left -= 2 * len(samples)
            self._kept[path] = np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
            return self[path]  # from the cache, so that all epochs get the same samples
        return samples


def prefetch(items: Sequence[Item], make: Callable[[Item], Made], ahead: int = 4) -> Iterator[Made]:
    """Yield make(item) in order, computed by a thread up to `ahead` items in advance.

    An error in `make` is raised at the position of its item. Closing the generator waits for the
    thread: a thread that is still in torch when Python exits aborts the process.
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
            yield made  # type: ignore[misc]  # made is None only with an error
    finally:
        stopped.set()
        thread.join()
