"""Punctuation and case put into bare transcripts: the model of a folder, in NumPy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.model_folder import WEIGHTS, read_folder
from asr.models.settings import PunctuationSettings
from asr.runtime.numpy_runtime.layers import Array, BiLSTM, Linear, Weights, reversal
from asr.tables import from_table
from asr.text.hashed import WHOLE, rows_of
from asr.text.written import Case, Mark, ends_sentence, spell
from asr.weights import read_arrays

WINDOW = 200  # words that are read at once; training saw up to 300
CONTEXT = 40  # words on either side of a window that are read with it


class PunctuationNetwork(NamedTuple):
    """`asr.models.punctuation.PunctuationModel` in NumPy; the sizes are those of the weights."""

    table: Array  # (buckets, E)
    layers: tuple[BiLSTM, ...]
    marks: Linear
    cases: Linear

    @classmethod
    def of(cls, weights: Weights, settings: PunctuationSettings) -> PunctuationNetwork:
        """Take the weights of a model.

        Raises:
            ValueError: weights are missing, or of other sizes.
        """
        try:
            layers = tuple(BiLSTM.of(weights, f"layers.{at}") for at in range(settings.layers))
            marks, cases = (Linear.of(weights, at) for at in ("marks", "cases"))
            table = np.asarray(weights["table.weight"], np.float32)
        except KeyError as error:
            raise ValueError(f"no weight {error}") from error
        found = (table.shape, marks.matrix.shape, cases.matrix.shape)
        size, states = settings.embedding_size, 2 * settings.state_size
        wanted = (
            (settings.buckets, size),
            (states, len(Mark)),
            (states + size, len(Case)),
        )
        if found != wanted:
            raise ValueError(f"sizes {found}, wanted {wanted}")
        return cls(table, layers, marks, cases)

    def vectors(self, words: Sequence[str]) -> Array:
        """Return the vectors (T, E) of words."""
        rows = [rows_of(word, len(self.table)) for word in words]
        return np.stack(
            [self.table[each[:WHOLE]].sum(0) + self.table[each[WHOLE:]].mean(0) for each in rows]
        )

    def classes(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the most probable mark and case (2, T) of T words, not 0, read as one text."""
        vectors = self.vectors(words)[None]  # (1, T, E)
        order = reversal(np.array([len(words)]), len(words))
        states = vectors
        for layer in self.layers:
            states = layer(states, order)
        cases = self.cases(np.concatenate([states, vectors], axis=-1))
        return np.stack([self.marks(states)[0].argmax(1), cases[0].argmax(1)])


class Punctuator(NamedTuple):
    """Writes bare words with punctuation and case."""

    network: PunctuationNetwork

    @classmethod
    def load(cls, folder: Path) -> Punctuator:
        """Load a model folder, or a model of the package by its name.

        Raises:
            UserError: there is no such folder, or it holds another model or damaged weights.
        """
        read = read_folder(folder, "written")
        settings = from_table(PunctuationSettings, read.model)
        weights = read_arrays(read.path / WEIGHTS)
        try:
            return cls(PunctuationNetwork.of(weights, settings))
        except ValueError as error:
            raise UserError(f"{read.path / WEIGHTS}: {error}") from error

    def __call__(self, words: Sequence[str]) -> list[str]:
        """Return each word of a recording as it is written, with the mark after it."""
        text = self.begin()
        return [word for part in (*text.add(words), *text.finish()) for word in part]

    def begin(self) -> PunctuatedText:
        """Begin the text of a recording."""
        return PunctuatedText(self.network)


class PunctuatedText:
    """A text that is written part by part (segment by segment), as its words come.

    Words are read in windows, each with some words of its neighbours, so that a part waits for the
    `CONTEXT` words after it.
    """

    def __init__(self, network: PunctuationNetwork) -> None:
        self._network = network
        self._words: list[str] = []  # those that are not written yet, and `_before` words before
        self._before = 0
        self._sizes: deque[int] = deque()  # words of each part that is not written yet
        self._begins = True  # whether the next word begins a sentence

    def add(self, words: Sequence[str]) -> list[list[str]]:
        """Add a part; return the parts that can now be written, in order, earlier ones first."""
        self._words += words
        self._sizes.append(len(words))
        if len(self._words) - self._before < WINDOW + CONTEXT:
            return []
        return self._written(len(self._words) - CONTEXT)

    def finish(self) -> list[list[str]]:
        """Return all other parts."""
        return self._written(len(self._words))

    def _written(self, end: int) -> list[list[str]]:
        """Write the parts that lie before `end`."""
        start, stop = self._before, self._before
        stops = []
        while self._sizes and stop + self._sizes[0] <= end:
            stop += self._sizes.popleft()
            stops.append(stop)
        windows = [
            self._classes(first, min(first + WINDOW, stop)) for first in range(start, stop, WINDOW)
        ]
        if not windows:
            return [[] for _ in stops]
        marks, cases = np.concatenate(windows, axis=1).tolist()
        spelt = spell(self._words[start:stop], marks, cases, self._begins)
        self._begins = ends_sentence(marks[-1])
        done = max(0, stop - CONTEXT)
        del self._words[:done]
        self._before = stop - done
        return [spelt[a - start : b - start] for a, b in pairwise([start, *stops])]

    def _classes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the classes (2, stop − start) of the words of a window."""
        first = max(0, start - CONTEXT)
        found = self._network.classes(self._words[first : stop + CONTEXT])
        return found[:, start - first : stop - first]
