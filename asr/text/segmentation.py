"""Subword regularisation: random segmentations of words in training.

sentencepiece also samples, but its generator cannot be seeded identically in two processes, so that
a resumed run would differ from an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

WORD_START: Final = (
    "\N{LOWER ONE EIGHTH BLOCK}"  # sentencepiece's symbol of the space before a word
)


def merge_by_chance(
    word: str, scores: Mapping[str, float], dropout: float, random: Random
) -> list[str]:
    """Merge the characters of a word into pieces, the best merge first, skipping some at random.

    scores: of the pieces of the vocabulary; the merge with the highest score is applied first, of
        equal ones the leftmost. dropout: probability of skipping a merge in a step.

    Source: BPE-dropout, Provilkov et al. 2020, algorithm 1.
    """
    pieces = list(word)
    while True:
        merges = [
            (scores[merged], -i)
            for i, merged in enumerate(map(str.__add__, pieces, pieces[1:]))
            if merged in scores and random.random() >= dropout
        ]
        if not merges:
            return pieces
        first = -max(merges)[1]
        pieces[first : first + 2] = [pieces[first] + pieces[first + 1]]


def choose_by_chance(
    segmentations: Sequence[list[int]],
    score: Callable[[int], float],
    smoothing: float,
    random: Random,
) -> list[int]:
    """Sample a segmentation of a text, with probabilities raised to the power `smoothing`.

    score: log probability of a piece (nats).

    Source: subword regularisation, Kudo 2018, section 3.3.
    """
    logs = [smoothing * sum(map(score, each)) for each in segmentations]
    best = max(logs)
    (chosen,) = random.choices(segmentations, [math.exp(log - best) for log in logs])
    return chosen
