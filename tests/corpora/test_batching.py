"""Grouping of examples into batches."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asr.corpora.batching import batch_by_length, plan_batches, repeat

LENGTHS = st.lists(st.floats(0.1, 20), max_size=60)


def require_whole_and_small(batches, lengths, size, most):
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= (most or len(lengths))
        padded = max(lengths[index] for index in batch) * len(batch)
        assert padded <= size or len(batch) == 1


@given(LENGTHS, st.floats(1, 60), st.one_of(st.none(), st.integers(1, 9)))
def test_every_example_once_from_short_to_long_and_no_batch_too_large(lengths, size, most):
    batches = batch_by_length(lengths, size, most)
    require_whole_and_small(batches, lengths, size, most)
    order = [index for batch in batches for index in batch]
    assert order == sorted(order, key=lambda index: lengths[index])
    for batch, following in pairwise(batches):  # no batch could take a further example
        assert len(batch) == most or lengths[following[0]] * (len(batch) + 1) > size


@given(LENGTHS, st.floats(1, 60), st.data())
def test_an_order_is_kept_and_only_what_it_names_is_batched(lengths, size, data):
    order = data.draw(st.permutations(range(len(lengths))).map(lambda all: all[: len(all) // 2]))
    batches = batch_by_length(lengths, size, order=order)
    assert [index for batch in batches for index in batch] == order
    for batch in batches:
        assert max(lengths[index] for index in batch) * len(batch) <= size or len(batch) == 1


@given(LENGTHS, st.floats(1, 60), st.integers(1, 9), st.booleans())
def test_a_plan_has_every_example_once_and_no_batch_too_large(lengths, size, most, short_first):
    batches = plan_batches(lengths, size, most, np.random.default_rng(0), short_first)
    require_whole_and_small(batches, lengths, size, most)


def test_short_first_goes_from_short_to_long_and_otherwise_order_is_random():
    lengths = np.linspace(1, 20, 200).tolist()
    ordered = plan_batches(lengths, 40, 99, np.random.default_rng(0), short_first=True)
    means = [np.mean([lengths[index] for index in batch]) for batch in ordered]
    assert np.corrcoef(means, np.arange(len(means)))[0, 1] > 0.9
    mixed = plan_batches(lengths, 40, 99, np.random.default_rng(0))
    means = [np.mean([lengths[index] for index in batch]) for batch in mixed]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_the_seed_decides_and_epochs_differ():
    lengths = np.linspace(1, 20, 200).tolist()
    first, again, other = (
        plan_batches(lengths, 40, 99, np.random.default_rng(s)) for s in (1, 1, 2)
    )
    assert first == again != other
    assert {frozenset(each) for each in first} != {frozenset(each) for each in other}


def test_repeat_takes_whole_times_always_and_fractions_by_chance():
    taken = np.bincount(repeat(2.3, 1000, np.random.default_rng(0)), minlength=1000)
    assert set(taken) == {2, 3}
    assert 230 < (taken == 3).sum() < 370
