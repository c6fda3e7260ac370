"""The microphone: a stand-in for the sound system that speaks faster than anybody listens."""

import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from asr.commands.microphone import from_microphone
from asr.errors import UserError


class PortAudioError(Exception):
    pass


class Stream:
    """Gives chunks to its callback from a thread, as PortAudio does."""

    chunks = tuple(bytes([number, 0]) * 1600 for number in range(20))
    overflows = ()

    def after(self):
        self.settings["finished_callback"]()

    def __init__(self, **settings):
        self.settings = settings
        self.thread = threading.Thread(target=self._speak)

    def _speak(self):
        for number, chunk in enumerate(self.chunks):
            status = SimpleNamespace(input_overflow=number in self.overflows)
            self.settings["callback"](memoryview(chunk), len(chunk) // 2, None, status)
        self.after()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()


def interrupt(_):
    os.kill(os.getpid(), signal.SIGINT)


def with_stream(monkeypatch, **changes):
    stream = type("Changed", (Stream,), changes)
    module = SimpleNamespace(RawInputStream=stream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)


def test_nothing_is_lost_while_somebody_is_slow_to_listen(monkeypatch):
    with_stream(monkeypatch)
    found = []
    for samples in from_microphone(16_000):
        found.append(samples)
        time.sleep(0.05)
    assert b"".join(found) == b"".join(Stream.chunks)
    assert len(found) < len(Stream.chunks)  # what waited came at once


def test_the_stream_is_of_16_bits_at_the_rate(monkeypatch):
    given = {}
    with_stream(
        monkeypatch, after=lambda stream: (given.update(stream.settings), Stream.after(stream))
    )
    assert b"".join(from_microphone(8_000))
    settings = {name: given[name] for name in ("samplerate", "channels", "dtype", "blocksize")}
    assert settings == {"samplerate": 8_000, "channels": 1, "dtype": "int16", "blocksize": 800}


@pytest.fixture
def interruptible():
    """Let Ctrl-C raise KeyboardInterrupt, also where a shell has made it be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_interrupted_it_ends_with_what_was_said(monkeypatch, interruptible):
    with_stream(monkeypatch, after=interrupt)
    assert b"".join(from_microphone(16_000)) == b"".join(Stream.chunks)
    assert signal.getsignal(signal.SIGINT) is interruptible


def test_interrupted_twice_it_stops_at_once(monkeypatch, interruptible):
    with_stream(monkeypatch, after=interrupt)
    source = from_microphone(16_000)
    next(source)
    for _ in range(1000):
        if signal.getsignal(signal.SIGINT) is interruptible:  # the first is handled
            break
        time.sleep(0.01)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    source.close()


def test_lost_samples_are_said_once(monkeypatch, capsys):
    with_stream(monkeypatch, overflows=(3, 7))
    list(from_microphone(16_000))
    assert capsys.readouterr().err == "asr: the sound system is too busy; samples were lost\n"


def test_a_microphone_that_cannot_be_used_is_one_line(monkeypatch):
    def refuse(self, **_):
        raise PortAudioError("no default input device")

    with_stream(monkeypatch, __init__=refuse)
    with pytest.raises(UserError, match="the microphone cannot be used: no default input device"):
        list(from_microphone(16_000))
