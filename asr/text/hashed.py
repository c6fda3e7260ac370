"""Words as rows of a hashed embedding table, without a vocabulary."""

from __future__ import annotations

from itertools import chain
from typing import Final
from zlib import crc32

WHOLE: Final = 2  # rows of a whole word: two hashes rarely collide together
_LENGTHS: Final = (2, 3, 4)  # of character n-grams, with the marks of both ends


def rows_of(word: str, buckets: int) -> list[int]:
    """Return the rows of a word: `WHOLE` of the word, then one of each character n-gram.

    Rows are from 0 to buckets − 1. Source: Svenstrup, Hansen and Winther 2017, "Hash Embeddings for
    Efficient Word Representations"; Bojanowski et al. 2017, section 3.2 (n-grams).
    """
    whole = [f"{seed} {word}" for seed in range(WHOLE)]
    edged = f"<{word}>"
    grams = (
        edged[start : start + length]
        for length in _LENGTHS
        for start in range(len(edged) - length + 1)
    )
    return [crc32(each.encode()) % buckets for each in chain(whole, grams)]
