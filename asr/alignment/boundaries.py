"""Words whose times are known to some 40 ms, and the sound → times to 10 ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.alignment.spans import SHORTEST_PAUSE
from asr.audio.features import FRAMES_PER_SECOND
from asr.models.boundary import LETTERS, BoundaryModel, surroundings
from asr.models.folder import BOUNDARIES, load_weights
from asr.results import Character, Span, Word
from asr.text.vocabulary import BLANK, Vocabulary


class Questions(NamedTuple):
    """The boundaries of words as `BoundaryModel` is asked for them: begin, end, begin, end, …

    frames: (N,) rough places. letters: (N, LETTERS). is_end: (N,) bool.
    """

    frames: Tensor
    letters: Tensor
    is_end: Tensor


@dataclass(frozen=True, eq=False)
class Boundaries:
    """A boundary model and the vocabulary that it reads letters by."""

    model: BoundaryModel
    vocabulary: Vocabulary

    @classmethod
    def load(cls, folder: Path, mels: int, vocabulary: Vocabulary) -> Boundaries | None:
        """Load the one that lies in a model folder; None where there is none.

        Raises:
            UserError: the file is damaged, or made for other features or letters.
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
        """Return characters and words with better times, in order, without overlap.

        Every word keeps its middle inside itself; its characters follow its boundaries. Words that
        less than `SHORTEST_PAUSE` parts touch.

        features: (F, mels), normalised, of the stretch in which the times, in seconds, are.
        """
        if not words or not len(features):
            return list(characters), list(words)
        asked = questions(self.vocabulary, words)
        offsets = self.model.offsets(surroundings(features, asked.frames), *asked[1:])
        times = (asked.frames + offsets).double().numpy().reshape(-1, 2) / FRAMES_PER_SECOND
        rough = np.array([(word.start, word.end) for word in words])
        edges = _in_order(times.clip(0, duration), rough.mean(1))
        moved = [
            word._replace(start=start, end=end)
            for word, (start, end) in zip(words, edges.tolist(), strict=True)
        ]
        return _follow(characters, moved), moved


def questions(vocabulary: Vocabulary, words: Sequence[Span]) -> Questions:
    """Ask for the begin and the end of each word, W of them: N = 2 W."""
    side = LETTERS // 2
    spelt = [[], *(vocabulary.encode(word.text) for word in words), []]
    frames, letters = [], []
    for span, before, word, after in zip(words, spelt, spelt[1:], spelt[2:], strict=False):
        frames += [round(span.start * FRAMES_PER_SECOND), round(span.end * FRAMES_PER_SECOND)]
        letters += [
            _last(before, side) + _first(word, side),
            _last(word, side) + _first(after, side),
        ]
    is_end = torch.arange(len(frames)) % 2 == 1
    return Questions(torch.tensor(frames), torch.tensor(letters), is_end)


def _last(letters: list[int], count: int) -> list[int]:
    return [*[BLANK] * count, *letters][-count:]


def _first(letters: list[int], count: int) -> list[int]:
    return [*letters, *[BLANK] * count][:count]


def _in_order(edges: NDArray[np.float64], middles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bring (W, 2) starts and ends into order, each word around its middle (W,)."""
    starts = np.minimum(edges[:, 0], middles)
    ends = np.maximum(edges[:, 1], middles)
    starts[1:] = np.maximum(starts[1:], middles[:-1])
    ends[:-1] = np.minimum(ends[:-1], middles[1:])
    near = starts[1:] - ends[:-1] < SHORTEST_PAUSE
    touching = (starts[1:] + ends[:-1]) / 2
    starts[1:] = np.where(near, touching, starts[1:])
    ends[:-1] = np.where(near, touching, ends[:-1])
    return np.stack([starts, ends], axis=1)


def _follow(characters: Sequence[Character], words: Sequence[Word]) -> list[Character]:
    """Stretch the characters of each word to its new times; spaces fill what is between words."""
    runs = [list(run) for _, run in groupby(characters, lambda each: each.text.isspace())]
    waiting = iter(words)
    rooms = [  # that each run of characters gets, and where no word is beside it keeps
        (run[0].start, run[-1].end) if run[0].text.isspace() else next(waiting)[1:3] for run in runs
    ]
    moved: list[Character] = []
    for at, run in enumerate(runs):
        start, end = rooms[at]
        if run[0].text.isspace():
            start = rooms[at - 1][1] if at else min(start, rooms[1][0])
            end = rooms[at + 1][0] if at + 1 < len(rooms) else max(start, end)
        moved += _stretched(run, start, end)
    return moved


def _stretched(run: Sequence[Character], start: float, end: float) -> list[Character]:
    """Bring neighbouring characters into a room; those without any length share it evenly."""
    times = np.array([(each.start, each.end) for each in run])
    first, last = times[0, 0], times[-1, 1]
    if last > first:
        shares = (times - first) / (last - first)
    else:
        shares = (np.arange(len(run))[:, None] + np.array([0, 1])) / len(run)
    return [
        each._replace(start=low, end=high)
        for each, (low, high) in zip(run, (start + shares * (end - start)).tolist(), strict=True)
    ]
