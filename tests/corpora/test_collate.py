"""Padding: the inputs are restored, and only padding is added."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from asr.corpora.collate import pad_masks, pad_samples, pad_tokens, unpad

ROWS = st.lists(st.lists(st.integers(1, 9), max_size=7), min_size=1, max_size=5)


@given(ROWS, st.integers(-100, 0))
def test_tokens_come_back_and_the_rest_is_the_value(rows, value):
    values, lengths = pad_tokens(rows, value)
    assert values.dtype == lengths.dtype == np.int64
    assert values.shape == (len(rows), max(1, *map(len, rows), 0))
    assert unpad(values, lengths) == rows
    assert unpad(torch.from_numpy(values), torch.from_numpy(lengths)) == rows
    assert (values == value).sum() == values.size - lengths.sum()


def test_tokens_are_padded_with_the_blank():
    assert pad_tokens([[5, 6], [], [7]]).values.tolist() == [[5, 6], [0, 0], [7, 0]]


@given(ROWS)
def test_samples_and_masks_are_padded_with_silence(rows):
    samples, lengths = pad_samples([np.array(row, np.float32) for row in rows])
    masks = pad_masks([np.ones(len(row), bool) for row in rows])
    assert samples.dtype == np.float32 and masks.values.dtype == bool
    assert unpad(samples, lengths) == rows
    assert np.array_equal(masks.values, samples > 0) and np.array_equal(masks.lengths, lengths)
