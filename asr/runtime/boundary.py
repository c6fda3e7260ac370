"""The boundary model of a model folder at run time: word times to 10 ms, with torch on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.alignment.boundaries import WordBoundaries, move_boundaries, word_boundaries
from asr.audio.features import FRAMES_PER_SECOND
from asr.models.boundary import CONTEXT, BoundaryModel, surroundings
from asr.models.folder import BOUNDARIES, load_weights
from asr.results import Character, Word
from asr.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class BoundaryRefiner:
    """A boundary model, in eval mode, and the vocabulary of its character ids."""

    model: BoundaryModel
    vocabulary: Vocabulary

    @classmethod
    def load(cls, folder: Path, mels: int, vocabulary: Vocabulary) -> BoundaryRefiner | None:
        """Load the boundary model of a model folder; None if the folder has none.

        Raises:
            UserError: the file is damaged, or belongs to other features or another vocabulary.
        """
        if not (folder / BOUNDARIES).is_file():
            return None
        model = BoundaryModel(mels, len(vocabulary)).eval().requires_grad_(False)
        load_weights(model, folder, BOUNDARIES)
        return cls(model, vocabulary)

    def refine(
        self,
        features: Tensor,
        characters: Sequence[Character],
        words: Sequence[Word],
        duration: float,
    ) -> tuple[list[Character], list[Word]]:
        """Return characters and words with refined times; see `move_boundaries`.

        features: (F, mels), normalised, of the audio in which the times, in seconds, lie; with
        F = 0 nothing changes. duration: of that audio, in seconds.
        """
        if not len(features):
            return list(characters), list(words)
        boundaries = word_boundaries(words, self.vocabulary, CONTEXT)
        return move_boundaries(characters, words, self.times(features, boundaries), duration)

    def times(self, features: Tensor, boundaries: WordBoundaries) -> NDArray[np.float64]:
        """Return the predicted time (N,) of each boundary, in seconds; F is not 0."""
        frames = nearest_frames(boundaries.times)
        offsets = self.model.offsets(
            surroundings(features, torch.from_numpy(frames)),
            torch.from_numpy(boundaries.characters),
            torch.from_numpy(boundaries.is_end),
        )
        return np.asarray((frames + offsets.numpy()) / FRAMES_PER_SECOND)


def nearest_frames(times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the feature frame nearest to each time (N,), in seconds."""
    return np.rint(times * FRAMES_PER_SECOND).astype(np.int64)
