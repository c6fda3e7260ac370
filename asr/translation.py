"""Translated texts, and the attention between their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import StopReason


class WordWeights(NamedTuple):
    """Attention weights between words. U target words, T source words, "<eos>" last in both.

    weights: (U, T) float32; rows sum to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Translation:
    """A translated text. U target tokens, T source tokens, both ending with "<eos>".

    source: the input text. text: its translation.
    tokens_of_sentences, words_of_sentences: the attention in each sentence that was translated
        separately, between its tokens, and between its words with subwords merged.
    log_probability: of the whole translation including end-of-sentence tokens, in nats.
    """

    source: str
    text: str
    tokens_of_sentences: tuple[WordWeights, ...]
    words_of_sentences: tuple[WordWeights, ...]
    log_probability: float
    stop_reason: StopReason

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The T source tokens of all sentences, with one end-of-sentence."""
        return chained_words([each.source for each in self.tokens_of_sentences])

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The U target tokens of all sentences, with one end-of-sentence."""
        return chained_words([each.target for each in self.tokens_of_sentences])

    @property
    def weights(self) -> NDArray[np.float32]:
        """Attention weights (U, T) of each target token; rows sum to 1.

        With several sentences the matrix is assembled at each call and has U·T entries: for a long
        text use the weights of the sentences.
        """
        return chain(self.tokens_of_sentences).weights

    @property
    def words(self) -> WordWeights:
        """The same between words, with subwords merged; see `asr.alignment.links`."""
        return chain(self.words_of_sentences)


def chained_words(sentences: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the words of all sentences with one end-of-sentence, that of the last sentence."""
    *earlier, last = sentences
    return (*(word for each in earlier for word in each[:-1]), *last)


def chain(sentences: Sequence[WordWeights]) -> WordWeights:
    """Concatenate sentences: block-diagonal weights, zero between different sentences.

    The result has one end-of-sentence, that of the last sentence. Weight on the end of an earlier
    sentence is moved to it. A single sentence is returned as it is.
    """
    if len(sentences) == 1:
        return sentences[0]
    source = chained_words([each.source for each in sentences])
    target = chained_words([each.target for each in sentences])
    weights = np.zeros((len(target), len(source)), np.float32)
    row = column = 0
    for each in sentences:
        rows, columns = each.weights.shape[0] - 1, each.weights.shape[1] - 1
        weights[row : row + rows, column : column + columns] = each.weights[:-1, :-1]
        weights[row : row + rows, -1] = each.weights[:-1, -1]
        row, column = row + rows, column + columns
    last = sentences[-1]
    weights[-1, -last.weights.shape[1] :] = last.weights[-1]
    return WordWeights(source, target, weights)
