"""Cut text into subwords by chance, so that a model meets a word in several spellings.

sentencepiece draws too, but from a generator that no seed fixes from one process to the next; a
training that goes on from a checkpoint would then see other subwords than one that never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

WORD_START: Final = "\N{LOWER ONE EIGHTH BLOCK}"  # sentencepiece's sign of the space before a word


def merge_by_chance(
    word: str, scores: Mapping[str, float], dropout: float, random: Random
) -> list[str]:
    """Join the characters of a word to pieces, the best merge first, leaving some merges out.

    scores: what each piece of the vocabulary is worth; the merge that makes the best one is made
        first, of equals the leftmost. dropout: chance of each merge, at each step, to be left out.

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
    """Choose one of the segmentations of a text: each by its probability to the power `smoothing`.

    score: log probability of a piece (nats).

    Source: subword regularisation, Kudo 2018, section 3.3.
    """
    logs = [smoothing * sum(map(score, each)) for each in segmentations]
    best = max(logs)
    (chosen,) = random.choices(segmentations, [math.exp(log - best) for log in logs])
    return chosen
