"""Text without recordings, cut into pieces for a decoder's internal language model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asr.corpora.text import read_texts
from asr.errors import UserError
from asr.text.vocabulary import Vocabulary

SPACE = " "


class TextStream:
    """All texts as one row of characters, from which pieces are cut where a word begins.

    An utterance may begin inside a sentence and contain several, and so may a piece. After the last
    text comes the first again.
    """

    def __init__(self, paths: Sequence[Path], vocabulary: Vocabulary, length: int) -> None:
        """Read the texts; see `asr.corpora.text.read_texts`.

        paths: a file that is named several times is taken as often. vocabulary: of characters.
        length: characters of a piece.

        Raises:
            UserError: a file cannot be read, or all texts together are shorter than a piece.
        """
        self._length = length
        ids = {path: _encode(read_texts(path), vocabulary) for path in set(paths)}
        self._ids = np.concatenate([ids[path] for path in paths])
        (self._space,) = vocabulary.encode(SPACE)
        if len(self._ids) < length:
            names = ", ".join(str(path) for path in paths)
            raise UserError(f"{names}: less than one piece of {length} characters")

    def __len__(self) -> int:
        """Characters of all texts, with a space after each."""
        return len(self._ids)

    def cut(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return random pieces (count, length): ids of characters."""
        places = random.integers(len(self._ids), size=count)
        starts = np.array([self._word_after(int(place)) for place in places])
        return self._from(starts[:, None]).astype(np.int64)

    def _word_after(self, place: int) -> int:
        """Return where the first word after a place begins; the place, if no word begins soon."""
        spaces = np.flatnonzero(self._from(place) == self._space)
        return place + 1 + int(spaces[0]) if spaces.size else place

    def _from(self, starts: int | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the ids of the pieces that begin at some places."""
        return self._ids.take(starts + np.arange(self._length), mode="wrap")


def _encode(texts: Iterable[str], vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """Return the ids (N,) of the characters of texts, with a space after each."""
    table = np.zeros(128, np.uint8)
    for character in vocabulary.inventory:
        if len(character) == 1:
            (table[ord(character)],) = vocabulary.encode(character)
    joined = "".join(f"{text}{SPACE}" for text in texts).encode("ascii")
    return table[np.frombuffer(joined, np.uint8)]
