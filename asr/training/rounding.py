"""Training that foresees weights in few bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from asr.models.rounding import rounded

FULL = 32  # bits of a weight that is not rounded


class Rounding:
    """Rounds the matrices of a model while its loss is computed.

    The gradient at the rounded weights is taken as that of the weights themselves, which keep 32
    bits (straight-through estimator; source: Bengio, Léonard, Courville 2013).
    """

    def __init__(self, model: nn.Module, bits: int) -> None:
        """bits: 32 (nothing is rounded), 8, 4 or 3; see `asr.models.rounding`."""
        self._bits = bits
        self._matrices = (
            [each for each in model.state_dict().values() if each.dim() > 1] if bits < FULL else []
        )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the rounded weights in the model within the block."""
        own = [each.clone() for each in self._matrices]
        self.apply()
        try:
            yield
        finally:
            for matrix, value in zip(self._matrices, own, strict=True):
                matrix.copy_(value)

    def apply(self) -> None:
        """Round the weights of the model for good."""
        for matrix in self._matrices:
            matrix.copy_(rounded(matrix, self._bits).values())
