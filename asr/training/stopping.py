"""SIGTERM, by which batch systems and containers end a program, as a request to stop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_requested = threading.Event()


def requested() -> bool:
    """Return whether SIGTERM has arrived within `on_sigterm`."""
    return _requested.is_set()


@contextmanager
def on_sigterm() -> Iterator[None]:
    """Note SIGTERM instead of ending, and pass it on to child processes that train.

    Outside the main thread, where Python delivers no signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _requested.clear()

    def note(number: int, frame: FrameType | None) -> None:
        _requested.set()
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
