"""Functions of states: nested tuples with arrays as leaves.

A leaf is anything that is not a tuple and can be indexed like an array: NumPy arrays here,
tensors in `asr.runtime`. Its first dimension is the utterance, its second the hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Tree = TypeVar("Tree")


def change(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Replace every leaf by function(leaf, …); others: trees of the same shape."""
    if not isinstance(tree, tuple):
        return cast(Tree, function(tree, *others))
    parts = zip(*(cast(tuple[object, ...], each) for each in (tree, *others)), strict=True)
    changed = [change(function, *each) for each in parts]
    kind = type(tree)  # the constructor of a NamedTuple takes its fields one by one
    return cast(Tree, kind(*changed) if hasattr(tree, "_fields") else tuple(changed))


def take(tree: Tree, rows: Any) -> Tree:
    """Keep the utterances rows (b,) of every leaf (B, …)."""
    return change(lambda each: each[rows], tree)


def spread(values: NDArray[Any], alive: NDArray[np.bool_]) -> NDArray[Any]:
    """Return (B, N, …) with values (F, …) where alive (B, N) is true, and zeros elsewhere."""
    if len(values) == alive.size:
        return values.reshape(*alive.shape, *values.shape[1:])
    found = np.zeros((*alive.shape, *values.shape[1:]), values.dtype)
    found[alive] = values
    return found


def put(one: NDArray[Any], rows: NDArray[np.int64], two: NDArray[Any]) -> NDArray[Any]:
    """Return `one` (B, T, …) in which the utterances rows (b,) are those of `two` (b, T', …).

    The shorter of both is padded with zeros.
    """
    sizes = [max(pair) for pair in zip(one.shape[1:], two.shape[1:], strict=True)]

    def lengthened(array: NDArray[Any]) -> NDArray[Any]:
        missing = [size - own for size, own in zip(sizes, array.shape[1:], strict=True)]
        return np.pad(array, [(0, 0), *((0, each) for each in missing)])

    joined = lengthened(one)
    joined[rows] = lengthened(two)
    return joined


def reorder(tree: Tree, parents: NDArray[np.int64]) -> Tree:
    """Reorder hypotheses: the m-th new one is the old one parents[b, m]; leaves (B, N, …)."""
    batch = np.arange(len(parents))[:, None]
    return change(lambda each: each[batch, parents], tree)
