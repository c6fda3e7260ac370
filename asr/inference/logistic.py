"""The logistic function of the models that give a probability."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGEST: Final = 30.0  # of a sum; beyond it the probability is 0 or 1 to 13 digits


def logistic(sums: ArrayLike) -> NDArray[np.float64]:
    """Return σ(x) = 1 / (1 + exp(−x)) of each sum."""
    found: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(sums, -_LARGEST, _LARGEST)))
    return found
