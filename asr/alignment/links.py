"""Attention between words: the weights of tokens merged into those of words, and Pharaoh links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.text.scripts import begins_unspaced, ends_unspaced
from asr.text.segmentation import WORD_START
from asr.translation import WordWeights, chained_words

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


def source_words(sentences: Sequence[WordWeights]) -> list[list[SourceWord]]:
    """Return for each target word the source words it attends to, in descending order of weight.

    Indices are those of the whole text, see `asr.translation.chain`. End-of-sentence is left out as
    a target. Weights below `LEAST_SHARE` are left out.
    """
    attended: list[list[SourceWord]] = []
    for each, places in _placed(sentences):
        for row in each.weights[:-1]:
            order = np.argsort(-row, kind="stable")
            attended.append(
                [
                    SourceWord(places[word], each.source[word], float(row[word]))
                    for word in order[row[order] >= LEAST_SHARE]
                ]
            )
    return attended


def pharaoh(sentences: Sequence[WordWeights]) -> str:
    """Return the links as `source-target` pairs of indices from 0, one for each target word.

    A target word is linked to the source word of the largest weight, and has no link if that is
    end-of-sentence.
    """
    most = [
        None if word == len(places) - 1 else places[word]
        for each, places in _placed(sentences)
        for word in each.weights[:-1].argmax(1).tolist()
    ]
    return " ".join(f"{word}-{place}" for place, word in enumerate(most) if word is not None)


def attention_record(sentences: Sequence[WordWeights]) -> dict[str, Any]:
    """Return the JSON record of words and links: `links` are those of `source_words`."""
    return {
        "source_words": chained_words([each.source for each in sentences]),
        "target_words": chained_words([each.target for each in sentences]),
        "alignment": pharaoh(sentences),
        "links": [
            [{"word": each.word, "share": round(each.share, 3)} for each in attended]
            for attended in source_words(sentences)
        ],
    }


def _placed(sentences: Sequence[WordWeights]) -> Iterator[tuple[WordWeights, list[int]]]:
    """Yield each sentence with the index of each of its source words in the whole text."""
    end = sum(len(each.source) - 1 for each in sentences)
    first = 0
    for each in sentences:
        after = first + len(each.source) - 1
        yield each, [*range(first, after), end]
        first = after


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
