"""Audio is cached, and batches are prefetched."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from asr.errors import UserError
from asr.training import distributed
from asr.training.loading import AudioStore, prefetch
from asr.training.stopping import on_sigterm, requested


def test_store_reads_what_fits_once_and_gives_the_same_each_time():
    reads = []

    def read(path):
        reads.append(path)
        return np.linspace(-1, 1, 100, dtype=np.float32)

    store = AudioStore(gigabytes=250e-9, read=read)  # space for one
    first, again = store[Path("a")], store[Path("a")]
    assert np.array_equal(first, again) and np.abs(first - np.linspace(-1, 1, 100)).max() < 1e-4
    other, anew = store[Path("b")], store[Path("b")]
    assert np.array_equal(first, other) and np.array_equal(other, anew)  # kept or not
    assert reads == [Path("a"), Path("b"), Path("b")]


@pytest.mark.parametrize("processes", [0, 2])
def test_prefetch_keeps_the_order_and_raises_at_the_item_s_turn(processes):
    def make(item):
        if item == 3:
            raise RuntimeError("three")
        return item * 10

    made = prefetch(range(6), make, processes)
    assert [next(made), next(made), next(made)] == [0, 10, 20]
    with pytest.raises(RuntimeError, match="three"):
        next(made)


def test_the_message_of_a_process_is_that_of_its_error():
    def make(item):
        raise UserError("21 recordings cannot be read")

    with pytest.raises(UserError, match=r"^21 recordings cannot be read$"):
        next(prefetch(range(6), make, 1))


def test_prefetch_leaves_no_thread_behind_when_its_user_stops():
    def make(item):
        time.sleep(0.2)  # so that it is running when the user stops
        return item

    before = set(threading.enumerate())
    made = prefetch(range(1000), make)
    next(made)
    made.close()
    assert set(threading.enumerate()) <= before


def test_prefetch_leaves_no_process_behind_when_its_user_stops():
    before = set(multiprocessing.active_children())
    made = prefetch(range(1000), str, processes=2)
    assert next(made) == "0"
    assert len(set(multiprocessing.active_children()) - before) == 2
    made.close()
    assert set(multiprocessing.active_children()) <= before


def test_sigterm_ends_no_process_that_makes_batches():
    def make(item):
        time.sleep(0.02)
        return item

    found = []
    with on_sigterm():
        for item in prefetch(range(40), make, processes=2):
            found.append(item)
            if item in (1, 20):
                os.kill(os.getpid(), signal.SIGTERM)
        assert requested() == signal.SIGTERM
    assert found == [*range(40)]


def test_unreadable_audio_is_named_by_every_process(monkeypatch, capsys):
    def read(path):
        raise UserError(f"{path}: damaged")

    monkeypatch.setattr(distributed, "rank", lambda: 1)
    assert AudioStore(1.0, read).readable(Path("a.flac")) is None
    assert "a.flac: damaged; left out (1 so far" in capsys.readouterr().err
