"""Signals as requests to stop with a checkpoint: SIGTERM, and Ctrl-C while training."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_requested = threading.Event()
_interrupted = threading.Event()


def requested() -> int:
    """Return the signal that has arrived within `on_sigterm` or `on_interrupt`, 0 if none has."""
    if _interrupted.is_set():
        return signal.SIGINT
    return signal.SIGTERM if _requested.is_set() else 0


def note(number: int) -> None:
    """Note a signal that another process of the run has got."""
    (_interrupted if number == signal.SIGINT else _requested).set()


def interrupted() -> bool:
    """Return whether the request came from Ctrl-C."""
    return _interrupted.is_set()


@contextmanager
def on_interrupt() -> Iterator[None]:
    """Note the first Ctrl-C instead of ending; the second one ends at once.

    Nothing changes outside the main thread, where Python delivers no signals, and where Ctrl-C is
    ignored, as in a shell's background.
    """
    _interrupted.clear()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        note(number)
        signal.signal(signal.SIGINT, before)
        os.write(2, b"\nstopping with a checkpoint; Ctrl-C again stops at once\n")

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def on_sigterm() -> Iterator[None]:
    """Note SIGTERM instead of ending.

    Outside the main thread, where Python delivers no signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _requested.clear()

    def terminate(number: int, frame: FrameType | None) -> None:
        note(number)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        _requested.clear()
