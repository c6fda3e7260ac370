"""More pairs to train on, made of those there are: joined, with other words, as they are spoken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from asr.corpora.pairs import Pair

_ENDINGS = (".", "!", "?")
_WORD = re.compile(r"\w+")


def join(pairs: Sequence[Pair], count: int, random: np.random.Generator) -> list[Pair]:
    """Return `count` pairs that are each two or three of the given ones, drawn by chance, in a row.

    So a model that is trained on single sentences also meets texts of several, and longer ones.
    Only pairs are taken of which both sides end as sentences do. Source: Kondo et al. 2021,
    "Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation".
    """
    whole = [pair for pair in pairs if all(side.endswith(_ENDINGS) for side in pair)]
    if not whole:
        return []
    drawn = [random.integers(len(whole), size=size) for size in random.integers(2, 4, size=count)]
    return [
        Pair(*(" ".join(side) for side in zip(*(whole[index] for index in indices), strict=True)))
        for indices in drawn
    ]


def rename(pairs: Sequence[Pair], count: int, random: np.random.Generator) -> list[Pair]:
    """Return `count` of the pairs, drawn by chance, with other names and numbers in them.

    So a model learns to carry over what it has never seen. Only pairs are taken that have a name
    or a number alike on both sides, those with a rare one more often. A new number has as many
    digits; a new name begins like one that the pairs have and ends like another.
    """
    found = [(pair, alike) for pair in pairs if (alike := _alike(pair))]
    if not found:
        return []
    counts = Counter(word for _, alike in found for word in alike)
    names = sorted(word for word in counts if not word.isdigit())
    chances = np.array([min(counts[word] for word in alike) ** -0.5 for _, alike in found])
    renamed = []
    for index in random.choice(len(found), size=count, p=chances / chances.sum()):
        pair, alike = found[index]
        new = {word: _another(word, names, random) for word in alike}
        renamed.append(Pair(*(_replace(side, new) for side in pair)))
    return renamed


def exchange(
    pairs: Sequence[Pair],
    classes: Sequence[Sequence[Pair]],
    count: int,
    random: np.random.Generator,
) -> list[Pair]:
    """Return `count` of the pairs, drawn by chance, with another word of a class in them.

    classes: words, or several in a row, with their translations, that may stand for one another in
        any sentence: the days of the week. Each is put in about equally often, so that a model
        meets the rare ones too, in place of one that a pair has once, as a whole, on both sides.

    Source: Fadaee et al. 2017, "Data Augmentation for Low-Resource Neural Machine Translation",
    with classes in place of their language model.
    """
    places: list[tuple[Pair, list[tuple[Pair, Pair]]]] = []
    for words in classes:
        holding = _holding(pairs, words)
        for new in words:  # "from Monday to Monday" is not wanted
            fit = [each for each in holding if not _whole(new.source).search(each[0].source)]
            places += [(new, fit)] * bool(fit)
    if not places:
        return []
    exchanged = []
    for drawn in random.integers(len(places), size=count):
        new, fit = places[drawn]
        pair, old = fit[random.integers(len(fit))]
        sides = zip(pair, old, new, strict=True)
        exchanged.append(Pair(*(_whole(gone).sub(come, side) for side, gone, come in sides)))
    return exchanged


def spoken(text: str) -> str:
    """Return the text as a recogniser writes it: small letters, no marks but apostrophes."""
    return " ".join(re.findall(r"\w+(?:'\w+)*", text.lower()))


def _holding(pairs: Sequence[Pair], words: Sequence[Pair]) -> list[tuple[Pair, Pair]]:
    """Pairs that have one of the words once on each side, each with that word."""
    return [
        (pair, old)
        for old in words
        for pair in pairs
        if old.source in pair.source
        and old.target in pair.target  # most are not: saves time
        and all(len(_whole(word).findall(side)) == 1 for side, word in zip(pair, old, strict=True))
    ]


@cache
def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")


def _alike(pair: Pair) -> list[str]:
    """Names and numbers that are on both sides; a name has a capital and three letters."""
    source, target = (dict.fromkeys(_WORD.findall(side)) for side in pair)
    return [
        word
        for word in source
        if word in target and (word.isdigit() or (word.istitle() and len(word) > 2))
    ]


def _replace(text: str, new: Mapping[str, str]) -> str:
    return _WORD.sub(lambda match: new.get(match[0], match[0]), text)


def _another(word: str, names: Sequence[str], random: np.random.Generator) -> str:
    """Make up a number of as many digits, or a name out of two."""
    if word.isdigit():
        digits = [random.integers(1, 10), *random.integers(10, size=len(word) - 1)]
        return "".join(map(str, digits))
    first, last = map(str, random.choice(names, size=2))
    return first[: (len(first) + 1) // 2] + last[len(last) // 2 :]
