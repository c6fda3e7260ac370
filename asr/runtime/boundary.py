"""The boundary model of a model folder at run time: word times to 10 ms, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from asr.activations import softmax
from asr.alignment.boundaries import WordBoundaries, move_boundaries, word_boundaries
from asr.audio.mel import FRAMES_PER_SECOND, MELS
from asr.errors import UserError
from asr.results import Character, Word
from asr.runtime.numpy_runtime.features import standardised_log_mel
from asr.runtime.numpy_runtime.layers import Array, Linear, TimeConvolution, Weights
from asr.text.vocabulary import Vocabulary
from asr.weights import read_arrays


class Network(Protocol):
    """A boundary model."""

    @property
    def reach(self) -> int:
        """Frames on either side of a boundary."""

    @property
    def context(self) -> int:
        """Characters on either side of a boundary."""

    def offsets(
        self, features: Array, characters: NDArray[np.int64], is_end: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the offset (N,) of each boundary, in frames.

        features: (N, 2 · reach + 1, MELS), see `standardised_log_mel`. characters: (N, 2 · context)
        ids. is_end: (N,) bool.
        """


class BoundaryNetwork(NamedTuple):
    """`asr.models.boundary.BoundaryModel` in NumPy; the sizes are those of the weights."""

    sound: TimeConvolution
    letters: Array  # (2 · context · symbols, channels)
    residual: tuple[TimeConvolution, ...]
    narrow: Linear
    output: Linear
    symbols: int

    @classmethod
    def of(cls, weights: Weights, symbols: int) -> BoundaryNetwork:
        """Take the weights of a model for `symbols` symbols."""
        letters = np.asarray(weights["letters.weight"], np.float32)
        sound, *residual = (
            TimeConvolution.of(weights, name) for name in ("sound", "residual.0", "residual.1")
        )
        narrow, output = (Linear.of(weights, name) for name in ("narrow", "output"))
        return cls(sound, letters, tuple(residual), narrow, output, symbols)

    @property
    def frames(self) -> int:
        """Frames around a boundary that are read."""
        return len(self.output.bias) // 2

    @property
    def reach(self) -> int:
        """See `Network.reach`."""
        return self.frames // 2

    @property
    def context(self) -> int:
        """See `Network.context`."""
        return len(self.letters) // self.symbols // 2

    def fits(self, mels: int = MELS) -> bool:
        """Return whether the sizes fit each other, `mels` filters and the symbols."""
        channels, narrow = len(self.sound.bias), self.narrow.bias.shape
        return (
            self.frames % 2 == 1
            and self.context > 0
            and self.sound.inputs == mels // 2
            and self.letters.shape == (2 * self.context * self.symbols, channels)
            and all(each.inputs == len(each.bias) == channels for each in self.residual)
            and self.narrow.matrix.shape == (channels, *narrow)
            and self.output.matrix.shape == (self.frames * narrow[0], 2 * self.frames)
            and self.output.bias.shape == (2 * self.frames,)
        )

    def offsets(
        self, features: Array, characters: NDArray[np.int64], is_end: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """See `Network.offsets`: the median of the predicted distribution."""
        count = len(features)
        pairs = features.reshape(count, self.frames, -1, 2).mean(3)
        tables = np.arange(characters.shape[1]) * self.symbols
        hidden = self.sound(pairs)  # (N, frames, channels)
        hidden += self.letters[characters + tables].sum(1)[:, None]
        np.maximum(hidden, 0, out=hidden)
        for convolution in self.residual:
            hidden += np.maximum(convolution(hidden), 0)
        both = self.output(self.narrow(hidden).reshape(count, -1)).reshape(count, 2, self.frames)
        cumulative = softmax(both[np.arange(count), is_end.astype(int)]).cumsum(1)
        median: NDArray[np.int64] = (cumulative < 0.5).sum(1) - self.reach
        return median


@dataclass(frozen=True, eq=False)
class BoundaryRefiner:
    """A boundary model and the vocabulary of its character ids."""

    model: Network
    vocabulary: Vocabulary

    @classmethod
    def load(cls, file: Path, vocabulary: Vocabulary) -> BoundaryRefiner:
        """Load a boundary model for the words of any recogniser with this vocabulary.

        Raises:
            UserError: the file is damaged, or belongs to another vocabulary.
        """
        weights = read_arrays(file)
        try:
            model = BoundaryNetwork.of(weights, len(vocabulary))
            fits = model.fits()
        except (KeyError, ValueError, IndexError, ZeroDivisionError) as error:
            raise UserError(
                f"{file}: not the weights of a boundary model of this version: {error}; remove it, "
                f'and write "boundaries": "english" into config.json to use that of the package'
            ) from error
        if not fits:
            raise UserError(f"{file}: the sizes do not fit {MELS} filters and this vocabulary")
        return cls(model, vocabulary)

    def refine(
        self,
        samples: Array,
        characters: Sequence[Character],
        words: Sequence[Word],
        duration: float,
    ) -> tuple[list[Character], list[Word]]:
        """Return characters and words with refined times; see `move_boundaries`.

        samples: (S,), of the audio in which the times, in seconds, lie; with less than a window,
        25 ms, nothing changes. duration: of that audio, in seconds.
        """
        if not words or not len(features := standardised_log_mel(samples)):
            return list(characters), list(words)
        boundaries = word_boundaries(words, self.vocabulary, self.model.context)
        return move_boundaries(characters, words, self.times(features, boundaries), duration)

    def times(self, features: Array, boundaries: WordBoundaries) -> NDArray[np.float64]:
        """Return the predicted time (N,) of each boundary, in seconds.

        features: (F, MELS), F not 0; see `standardised_log_mel`.
        """
        frames = nearest_frames(boundaries.times)
        reach = np.arange(-self.model.reach, self.model.reach + 1)
        around = features[(frames[:, None] + reach).clip(0, len(features) - 1)]  # (N, ·, MELS)
        offsets = self.model.offsets(around, boundaries.characters, boundaries.is_end)
        return np.asarray((frames + offsets) / FRAMES_PER_SECOND)


def nearest_frames(times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the feature frame nearest to each time (N,), in seconds."""
    return np.rint(times * FRAMES_PER_SECOND).astype(np.int64)
