"""What looked at what, word by word: the weights of tokens merged, and Pharaoh links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import WordWeights
from asr.text.segmentation import WORD_START

LEAST_SHARE: Final = 0.1  # of a word's weights, to be named


class Look(NamedTuple):
    """A word of the source that was looked at: its number from 0, and its share, 0 to 1."""

    word: int
    text: str
    share: float


def merge_words(
    weights: NDArray[np.float32],
    source: Sequence[str],
    target: Sequence[str],
    subwords: bool,
) -> WordWeights:
    """Merge the weights (U, T) of tokens into those of words.

    source, target: T and U tokens, end-of-sentence last. A word's pieces are looked at together,
    so their columns are summed; it looks with the mean of its pieces' rows. Where the tokens are
    words already (`subwords` false) nothing changes.
    """
    if not subwords:
        return WordWeights(tuple(source), tuple(target), weights)
    columns, source_words = _group(source)
    rows, target_words = _group(target)
    summed = np.add.reduceat(weights, columns, axis=1)
    sizes = np.diff([*rows, len(target)])
    merged = np.add.reduceat(summed, rows, axis=0) / sizes[:, None]
    return WordWeights(source_words, target_words, merged.astype(np.float32))


def chain(sentences: Sequence[WordWeights]) -> WordWeights:
    """Return the weights of sentences in a row, each of which looks at its own source alone.

    They get one end in common: that of the last. What a word looked at its sentence's end counts
    as looking at that. One sentence comes back as it is.
    """
    if len(sentences) == 1:
        return sentences[0]
    source = [word for each in sentences for word in each.source[:-1]]
    target = [word for each in sentences for word in each.target[:-1]]
    weights = np.zeros((len(target) + 1, len(source) + 1), np.float32)
    row = column = 0
    for each in sentences:
        rows, columns = each.weights.shape[0] - 1, each.weights.shape[1] - 1
        weights[row : row + rows, column : column + columns] = each.weights[:-1, :-1]
        weights[row : row + rows, -1] = each.weights[:-1, -1]
        row, column = row + rows, column + columns
    last = sentences[-1]
    weights[-1, -last.weights.shape[1] :] = last.weights[-1]
    return WordWeights((*source, last.source[-1]), (*target, last.target[-1]), weights)


def looks(found: WordWeights) -> list[list[Look]]:
    """Return for each target word, the end left out, the words it looked at, the most first.

    What has less than `LEAST_SHARE` is left out.
    """
    return [
        [
            Look(int(word), found.source[word], float(row[word]))
            for word in np.argsort(-row, kind="stable")
            if row[word] >= LEAST_SHARE
        ]
        for row in found.weights[:-1]
    ]


def pharaoh(found: WordWeights) -> str:
    """Return the links as `source-target` numbers from 0, one for each target word.

    A word is linked with the source word it looked at most; one that looked most at the end of
    the sentence has no link.
    """
    most = found.weights[:-1].argmax(1).tolist()
    end = len(found.source) - 1
    return " ".join(f"{word}-{place}" for place, word in enumerate(most) if word != end)


def _group(tokens: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Where words begin among tokens that end with end-of-sentence, and their texts."""
    starts = [
        place
        for place, token in enumerate(tokens)
        if place in (0, len(tokens) - 1) or token.startswith(WORD_START)
    ]
    stops = [*starts[1:], len(tokens)]
    words = ("".join(tokens[a:b]) for a, b in zip(starts, stops, strict=True))
    return starts, tuple(word.replace(WORD_START, "") for word in words)
