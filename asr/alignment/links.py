"""Attention between words: the weights of tokens merged into those of words, and Pharaoh links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import WordWeights
from asr.text.scripts import begins_unspaced, ends_unspaced
from asr.text.segmentation import WORD_START

LEAST_SHARE: Final = 0.1  # smallest weight of a source word that `source_words` lists


class SourceWord(NamedTuple):
    """A source word that a target word attends to: its index from 0, and its weight, 0 to 1."""

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

    The columns of a source word's pieces are summed, the rows of a target word's pieces averaged.

    source, target: T and U tokens, end-of-sentence last. subwords: false if the tokens are words
        already, and nothing changes.
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
    """Concatenate sentences: block-diagonal weights, zero between different sentences.

    The result has one end-of-sentence, that of the last sentence. Weight on the end of an earlier
    sentence is moved to it. A single sentence is returned as it is.
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


def source_words(found: WordWeights) -> list[list[SourceWord]]:
    """Return for each target word the source words it attends to, in descending order of weight.

    End-of-sentence is left out as a target. Weights below `LEAST_SHARE` are left out.
    """
    return [
        [
            SourceWord(int(word), found.source[word], float(row[word]))
            for word in np.argsort(-row, kind="stable")
            if row[word] >= LEAST_SHARE
        ]
        for row in found.weights[:-1]
    ]


def pharaoh(found: WordWeights) -> str:
    """Return the links as `source-target` pairs of indices from 0, one for each target word.

    A target word is linked to the source word of the largest weight, and has no link if that is
    end-of-sentence.
    """
    most = found.weights[:-1].argmax(1).tolist()
    end = len(found.source) - 1
    return " ".join(f"{word}-{place}" for place, word in enumerate(most) if word != end)


def _group(tokens: Sequence[str]) -> tuple[list[int], tuple[str, ...]]:
    """Return the first token of each word, and the words; tokens: end-of-sentence last.

    In Chinese and Japanese, each token is a word.
    """
    starts = [
        place
        for place, token in enumerate(tokens)
        if place in (0, len(tokens) - 1)
        or token.startswith(WORD_START)
        or begins_unspaced(token)
        or ends_unspaced(tokens[place - 1])
    ]
    stops = [*starts[1:], len(tokens)]
    words = ("".join(tokens[a:b]) for a, b in zip(starts, stops, strict=True))
    return starts, tuple(word.replace(WORD_START, "") for word in words)
