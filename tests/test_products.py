"""Products of few rows are those of all rows at once."""

import numpy as np
import pytest

from asr.products import product


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 13, 63, 65, 70])
def test_a_product_of_few_rows_is_the_product(count):
    random = np.random.default_rng(count)
    rows = random.standard_normal((count, 12)).astype(np.float32)
    matrix = random.standard_normal((12, 9)).astype(np.float32)
    found = product(rows, matrix)
    assert found.shape == (count, 9) and found.dtype == np.float32
    np.testing.assert_allclose(found, rows.astype(float) @ matrix, rtol=1e-5, atol=1e-5)
