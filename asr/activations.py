"""Non-linearities of networks in NumPy; all work in place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def sigmoid(values: Array) -> Array:
    """Return σ(values); they are overwritten."""
    # σ(x) = (1 + tanh(x / 2)) / 2 does not overflow.
    values *= np.float32(0.5)
    np.tanh(values, out=values)
    values += np.float32(1)
    values *= np.float32(0.5)
    return values


def softmax(values: Array) -> Array:
    """Return the softmax over the last axis; values are overwritten, −∞ gives 0."""
    values -= values.max(-1, keepdims=True)
    np.exp(values, out=values)
    values /= values.sum(-1, keepdims=True)
    return values


def log_softmax(values: Array) -> Array:
    """Return the log-softmax over the last axis; values are overwritten."""
    values -= values.max(-1, keepdims=True)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    return values
