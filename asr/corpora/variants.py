"""Data augmentation for translation: joined pairs, replaced words, spoken form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from asr.corpora.pairs import Pair
from asr.text.scripts import join_words

_ENDINGS = (".", "!", "?", "。", "！", "？")
_WORD = re.compile(r"\w+")


def join(pairs: Sequence[Pair], count: int, random: np.random.Generator) -> list[Pair]:
    """Return `count` pairs, each the concatenation of two or three random pairs.

    This adds texts of several sentences to training on single sentences. Only pairs whose sides
    both end with sentence punctuation are used. Source: Kondo et al. 2021,
    "Sentence Concatenation Approach to Data Augmentation for Neural Machine Translation".
    """
    whole = [pair for pair in pairs if all(side.endswith(_ENDINGS) for side in pair)]
    if not whole:
        return []
    drawn = [random.integers(len(whole), size=size) for size in random.integers(2, 4, size=count)]
    return [
        Pair(*(join_words(side) for side in zip(*(whole[index] for index in indices), strict=True)))
        for indices in drawn
    ]


def rename(pairs: Sequence[Pair], count: int, random: np.random.Generator) -> list[Pair]:
    """Return `count` random pairs with their names and numbers replaced by new ones.

    This trains the copying of unknown words. Only pairs with the same name or number on both sides
    are used, those with a rare one more often. A new number has the same number of digits; a new
    name joins the beginning and the end of two names from the pairs.
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
    """Return `count` random pairs in which a word is replaced by another of its class.

    classes: words or phrases with translations that are interchangeable in any sentence, such as
        the days of the week. All are inserted about equally often, which adds examples of rare
        ones; the replaced word occurs once, as a whole word, on both sides of its pair.

    Source: Fadaee et al. 2017, "Data Augmentation for Low-Resource Neural Machine Translation",
    with classes in place of their language model.
    """
    places: list[tuple[Pair, list[tuple[Pair, Pair]]]] = []
    for words in classes:
        holding = _holding(pairs, words)
        for new in words:  # avoids "from Monday to Monday"
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
    """Return the text in the form of transcripts: lower case, apostrophes the only punctuation."""
    return " ".join(re.findall(r"\w+(?:'\w+)*", text.lower()))


def _holding(pairs: Sequence[Pair], words: Sequence[Pair]) -> list[tuple[Pair, Pair]]:
    """Return the pairs that contain one of the words once on each side, with that word."""
    return [
        (pair, old)
        for old in words
        for pair in pairs
        if old.source in pair.source
        and old.target in pair.target  # a fast test that excludes most pairs
        and all(len(_whole(word).findall(side)) == 1 for side, word in zip(pair, old, strict=True))
    ]


@cache
def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")


def _alike(pair: Pair) -> list[str]:
    """Return the names (capital, at least three letters) and numbers that are on both sides."""
    source, target = (dict.fromkeys(_WORD.findall(side)) for side in pair)
    return [
        word
        for word in source
        if word in target and (word.isdigit() or (word.istitle() and len(word) > 2))
    ]


def _replace(text: str, new: Mapping[str, str]) -> str:
    return _WORD.sub(lambda match: new.get(match[0], match[0]), text)


def _another(word: str, names: Sequence[str], random: np.random.Generator) -> str:
    """Return a new number with the same number of digits, or a new name from two names."""
    if word.isdigit():
        digits = [random.integers(1, 10), *random.integers(10, size=len(word) - 1)]
        return "".join(map(str, digits))
    first, last = map(str, random.choice(names, size=2))
    return first[: (len(first) + 1) // 2] + last[len(last) // 2 :]
