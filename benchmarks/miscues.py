"""Pages that differ from what was read, and recordings with repeated words; for `reading.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.results import Span

COMMON = 8000  # words of the lexicon that may take the place of a word or be inserted
RATE = 16_000  # Hz
FADE = 160  # samples (10 ms) over which spliced stretches are cross-faded


class Change(StrEnum):
    """What was done to a word of the text."""

    NONE = "none"
    REPLACED = "replaced"  # the page has a similar word instead: the reader misreads it
    INSERTED = "inserted"  # the page has one word more: the reader skips it
    DELETED = "deleted"  # the page lacks the word: the reader adds it


class Miscue(NamedTuple):
    """A word of the altered page; a deleted one has no place on it. said: empty if inserted."""

    word: str
    change: Change
    said: str


def lexicon(folder: Path) -> list[str]:
    """Return the most frequent words of a language model folder."""
    symbols = json.loads((folder / "words.json").read_text("utf-8"))["symbols"][3:]
    return [word for word in symbols if re.fullmatch("[a-z]{2,}", word)][:COMMON]


def key(word: str) -> str:
    """Return a rough phonetic spelling, equal for most homophones."""
    for pattern, sound in (
        ("^kn|^gn", "n"),
        ("^wr|^wh", "r" if word.startswith("wr") else "w"),
        ("gh(?=t|$)", ""),
        ("ph", "f"),
        ("ck|q", "k"),
        ("c(?=[eiy])", "s"),
        ("(?<![st])c(?!h)", "k"),
        ("mb$", "m"),
        (r"(.)\1", r"\1"),
        ("(?<=[^aeiou])e$", ""),
        ("([aeiou])[aeiouyw]+", r"\1"),
        ("y$", "i"),
        ("z", "s"),
    ):
        word = re.sub(pattern, sound, word)
    return word


class Neighbours:
    """Words that sound similar: a small edit distance between their keys, above 0."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.keys = [key(word) for word in words]

    def of(self, word: str) -> list[str]:
        """Return the neighbours of a word; up to 4 symbols of key distance 1, else up to 2."""
        own = key(word)
        most = 1 if len(own) <= 4 else 2
        return [
            other
            for other, theirs in zip(self.words, self.keys, strict=True)
            if abs(len(own) - len(theirs)) <= most and 0 < distance(own, theirs, most) <= most
        ]


def distance(one: str, other: str, most: int) -> int:
    """Return the edit distance of two strings, or some number above `most`."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
        if min(row) > most:
            return most + 1
    return row[-1]


def altered(words: Sequence[str], neighbours: Neighbours, random: Random) -> list[Miscue]:
    """Alter about one word in five; two words at least are kept between alterations.

    Of three alterations two replace a word by a neighbour, the others insert or delete one.
    """
    found: list[Miscue] = []
    kept = 2
    for word in words:
        kind = random.choice([Change.REPLACED] * 4 + [Change.INSERTED, Change.DELETED])
        if kept < 2 or random.random() > 0.4:
            found.append(Miscue(word, Change.NONE, word))
            kept += 1
            continue
        if kind is Change.REPLACED:
            near = neighbours.of(word)
            if not near:
                found.append(Miscue(word, Change.NONE, word))
                kept += 1
                continue
            found.append(Miscue(random.choice(near), kind, word))
        elif kind is Change.INSERTED:
            found += [
                Miscue(random.choice(neighbours.words), kind, ""),
                Miscue(word, Change.NONE, word),
            ]
        else:
            found.append(Miscue(word, kind, word))
        kept = 0
    return found


def repeated(
    samples: NDArray[np.float32], words: Sequence[Span], random: Random
) -> tuple[NDArray[np.float32], range]:
    """Repeat one or two words of a recording; return it and the indices of the words.

    words: of the recording, with times in seconds.
    """
    count = random.choice([1, 2])
    first = random.randrange(max(1, len(words) - count + 1))
    after = min(first + count, len(words))
    start, end = round(words[first].start * RATE), round(words[after - 1].end * RATE)
    return _joined([samples[:end], samples[start:]]), range(first, after)


def _joined(parts: Iterable[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Join stretches of sound with a short cross-fade."""
    first, *others = parts
    rise = np.linspace(0, 1, FADE, dtype=np.float32)
    for part in others:
        if min(len(first), len(part)) < FADE:
            first = np.concatenate([first, part])
            continue
        middle = first[-FADE:] * (1 - rise) + part[:FADE] * rise
        first = np.concatenate([first[:-FADE], middle, part[FADE:]])
    return first
