"""The microphone as raw samples, none of which is lost while earlier ones are decoded."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final

from asr.errors import UserError

CHUNK_SECONDS: Final = 0.1


def from_microphone(rate: int) -> Iterator[bytes]:
    """Yield 16-bit samples of one channel as they come, until Ctrl-C; rate: in Hz.

    All that has come meanwhile is yielded at once. What was said before Ctrl-C is yielded to its
    end; a second Ctrl-C raises KeyboardInterrupt.

    Raises:
        UserError: the microphone cannot be used.
    """
    import sounddevice

    heard: SimpleQueue[bytes | None] = SimpleQueue()  # None: the end
    warned = False

    def take(samples: Any, _frames: int, _time: Any, status: Any) -> None:
        nonlocal warned
        heard.put(bytes(samples))
        if status.input_overflow and not warned:
            warned = True
            print("asr: the sound system is too busy; samples were lost", file=sys.stderr)

    def end() -> None:
        heard.put(None)

    try:
        with (
            _at_interrupt(end),
            sounddevice.RawInputStream(
                samplerate=rate,
                channels=1,
                dtype="int16",
                blocksize=round(CHUNK_SECONDS * rate),
                callback=take,
                finished_callback=end,
            ),
        ):
            yield from _all_that_wait(heard)
    except sounddevice.PortAudioError as error:
        raise UserError(f"the microphone cannot be used: {error}") from error


def _all_that_wait(heard: SimpleQueue[bytes | None]) -> Iterator[bytes]:
    """Yield what is in a queue, joined, as soon as there is something, up to a None."""
    is_open = True
    while is_open:
        waiting = [heard.get()]
        while not heard.empty():
            waiting.append(heard.get())
        chunks = [chunk for chunk in waiting if chunk is not None]
        is_open = len(chunks) == len(waiting)
        yield b"".join(chunks)


@contextmanager
def _at_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C do something else than raise KeyboardInterrupt."""
    before = signal.getsignal(signal.SIGINT)

    def handle(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        act()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
