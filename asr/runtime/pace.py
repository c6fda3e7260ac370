"""The speaking rate from features, so that fast speech is slowed down before it is encoded.

A small convolutional network counts characters: their density in each 40 ms, summed.
`recipes/pace.py` trains it. Without such a network the symbols of the CTC head are counted, and
fast speech is encoded twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from asr.errors import UserError
from asr.model_folder import PACE, read_arrays
from asr.runtime.numpy_runtime.layers import Array, Linear, Weights

STRIDE = 4  # frames of features for each density


class PaceNetwork(NamedTuple):
    """Two convolutions over time and a linear layer; their widths are those of the weights.

    first: (width · mels / 2, C), on pairs of filters, with `STRIDE`. second: (width · C, C).
    density: (C, 1). scale: factor of the sum.
    """

    first: Linear
    second: Linear
    density: Linear
    scale: float

    @classmethod
    def of(cls, weights: Weights) -> PaceNetwork:
        """Take the weights of a model.

        Raises:
            KeyError: one is missing.
        """
        first, second, density = (Linear.of(weights, at) for at in ("first", "second", "density"))
        return cls(first, second, density, float(weights["scale"]))

    @classmethod
    def load(cls, folder: Path, mels: int) -> PaceNetwork | None:
        """Load the network of a model folder; None if the folder has none.

        Raises:
            UserError: the file is damaged, or belongs to other features.
        """
        file = folder / PACE
        if not file.is_file():
            return None
        try:
            network = cls.of(read_arrays(file))
            fits = network.fits(mels)
        except (KeyError, ValueError, IndexError) as error:
            raise UserError(f"{file}: not the weights of a pace network: {error}") from error
        if not fits:
            raise UserError(f"{file}: the sizes do not fit {mels} filters")
        return network

    def fits(self, mels: int) -> bool:
        """Return whether the sizes fit each other and `mels` filters."""
        inner = len(self.first.bias)
        widths = len(self.first.matrix) // (mels // 2), len(self.second.matrix) // inner
        return all(width % 2 == 1 for width in widths) and (
            self.first.matrix.shape == (widths[0] * (mels // 2), inner)
            and self.second.matrix.shape == (widths[1] * inner, len(self.second.bias))
            and self.density.matrix.shape == (len(self.second.bias), 1)
        )

    def characters(self, features: Array) -> float:
        """Return about how many characters are in features (F, mels), normalised."""
        if not len(features):
            return 0.0
        pairs = features.reshape(len(features), -1, 2).mean(2)
        hidden = np.maximum(_convolved(pairs, self.first, STRIDE), 0)
        hidden = np.maximum(_convolved(hidden, self.second, 1), 0)
        densities = np.logaddexp(self.density(hidden), 0)  # softplus: none is negative
        return self.scale * float(densities.sum())


def _convolved(values: Array, layer: Linear, stride: int) -> Array:
    """Convolve values (T, I) with zeros at both ends → (⌈T / stride⌉, O)."""
    width = len(layer.matrix) // values.shape[1]
    padded = np.pad(values, ((width // 2, width // 2), (0, 0)))
    windows = sliding_window_view(padded, width, axis=0)[::stride]  # (·, I, width)
    return layer(windows.swapaxes(1, 2).reshape(len(windows), -1))
