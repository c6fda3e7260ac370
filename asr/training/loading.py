"""Cache of audio samples, and prefetching of batches."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from asr.audio.cache import INT16_SCALE, in_16_bits
from asr.errors import UserError
from asr.training.journal import log_here

AHEAD = 4  # batches that a thread or process prepares in advance
MOST_UNREADABLE = 20  # recordings; a disk or a corpus with more needs a person

Item = TypeVar("Item")
Made = TypeVar("Made")


class AudioStore:
    """Reads audio files in 16 bits, and caches them up to a limit in gigabytes."""

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
        samples = self._kept.get(path)
        if samples is None:
            samples = in_16_bits(self._read(path))
            if samples.nbytes <= self._left:
                self._left -= samples.nbytes
                self._kept[path] = samples
        return samples.astype(np.float32) / np.float32(INT16_SCALE)


def prefetch(
    items: Sequence[Item], make: Callable[[Item], Made], processes: int = 0
) -> Iterator[Made]:
    """Yield make(item) in order, computed ahead by processes, or by a thread if there are none.

    Tensors that processes make are in pinned memory if there is a GPU, which copies from it while
    it computes. An error in `make` is raised at the position of its item. Closing the generator
    waits for the thread or ends the processes.
    """
    return _by_processes(items, make, processes) if processes else _by_thread(items, make)


def _by_thread(items: Iterable[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
    # A thread that is still in torch when Python exits aborts the process: wait for it.
    with ThreadPoolExecutor(1) as pool:
        source = iter(items)
        pending = deque(pool.submit(make, item) for item in islice(source, AHEAD))
        try:
            while pending:
                yield pending.popleft().result()
                pending.extend(pool.submit(make, item) for item in islice(source, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def _by_processes(
    items: Sequence[Item], make: Callable[[Item], Made], processes: int
) -> Iterator[Made]:
    from torch.cuda import is_available
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        _Made(items, make),  # type: ignore[arg-type]  # torch's datasets need no more than these
        batch_size=None,
        num_workers=processes,
        prefetch_factor=AHEAD,
        pin_memory=is_available(),
        collate_fn=_as_it_is,
        worker_init_fn=_ignore_sigterm,
        multiprocessing_context="fork",  # `make` has no name by which another could import it
    )
    for made in loader:
        if isinstance(made, UserError):
            raise made
        yield made


class _Made(Generic[Item, Made]):
    """What is made of items, or a user's error, as torch's `Dataset`."""

    def __init__(self, items: Sequence[Item], make: Callable[[Item], Made]) -> None:
        self._items, self._make = items, make

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Made | UserError:
        try:
            return self._make(self._items[index])
        except UserError as error:
            return error  # torch would raise it with the traceback as its message


def _ignore_sigterm(number: int) -> None:
    """Go on until the training has written its checkpoint: it needs the batches until then."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _as_it_is(made: Made) -> Made:
    return made
