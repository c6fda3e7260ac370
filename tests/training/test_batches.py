"""Which examples go into a batch, reading once, and reading ahead."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.training.batches import AudioStore, plan_batches, prefetch, repeat


@given(
    st.lists(st.floats(0.1, 20), min_size=1, max_size=60),
    st.floats(1, 60),
    st.integers(1, 9),
    st.booleans(),
)
def test_every_example_once_and_no_batch_too_large(lengths, size, most, short_first):
    batches = plan_batches(lengths, size, most, np.random.default_rng(0), short_first)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= most
        padded = max(lengths[index] for index in batch) * len(batch)
        assert padded <= size or len(batch) == 1


def test_short_first_goes_from_short_to_long_and_otherwise_order_is_random():
    lengths = np.linspace(1, 20, 200).tolist()
    ordered = plan_batches(lengths, 40, 99, np.random.default_rng(0), short_first=True)
    means = [np.mean([lengths[index] for index in batch]) for batch in ordered]
    assert np.corrcoef(means, np.arange(len(means)))[0, 1] > 0.9
    mixed = plan_batches(lengths, 40, 99, np.random.default_rng(0))
    means = [np.mean([lengths[index] for index in batch]) for batch in mixed]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_repeat_takes_whole_times_always_and_fractions_by_chance():
    taken = np.bincount(repeat(2.3, 1000, np.random.default_rng(0)), minlength=1000)
    assert set(taken) == {2, 3}
    assert 230 < (taken == 3).sum() < 370


def test_store_reads_what_fits_once_and_gives_the_same_each_time():
    reads = []

    def read(path):
        reads.append(path)
        return np.linspace(-1, 1, 100, dtype=np.float32)

    store = AudioStore(gigabytes=250e-9, read=read)  # room for one
    first, again = store[Path("a")], store[Path("a")]
    assert np.array_equal(first, again) and np.abs(first - np.linspace(-1, 1, 100)).max() < 1e-4
    store[Path("b")], store[Path("b")]
    assert reads == [Path("a"), Path("b"), Path("b")]


def test_prefetch_keeps_the_order_and_raises_at_the_item_s_turn():
    def make(item):
        if item == 3:
            raise RuntimeError("three")
        return item * 10

    made = prefetch(range(6), make)
    assert [next(made), next(made), next(made)] == [0, 10, 20]
    with pytest.raises(RuntimeError, match="three"):
        next(made)


def test_prefetch_leaves_no_thread_behind_when_its_user_stops():
    def make(item):
        time.sleep(0.2)  # so that the thread is in it when the user stops
        return item

    before = threading.active_count()
    made = prefetch(range(1000), make)
    next(made)
    made.close()
    assert threading.active_count() == before
