"""The words of a page of text, as printed and as they are read aloud."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from asr.text.normalize import normalize
from asr.text.roman import with_roman_numerals
from asr.text.sentences import split_sentences

NEAR: Final = 4  # words on each side of one that may change how it is spoken
STOPS: Final = frozenset(",.;:!?…—–-)\"'”’")  # signs at which a reader may pause
SOFT_HYPHEN: Final = "\N{SOFT HYPHEN}"
# The hyphen that ends the first part of a word, at the end of a line.
_BREAK: Final = re.compile(rf"(?<=[^\W\d_])[-\u2010{SOFT_HYPHEN}]\Z")


class PageWord(NamedTuple):
    """A word of a page.

    text: as printed, with its punctuation; several words if they are spoken as one, "$5 million".
    spoken: normalised, several words for "$5". line: number of its line, from 0. stops: whether
    punctuation follows it.
    """

    text: str
    spoken: str
    line: int
    stops: bool


def page_words(lines: Iterable[str]) -> list[PageWord]:
    """Return the words of a page.

    Signs without letters or digits join the word before them in their line, or else the one after.
    Lines without words are left out, and a reader may pause at them. A word that is hyphenated at
    the end of a line is one word of the next one.
    """
    words: list[PageWord] = []
    for number, line in enumerate(_rejoined(lines)):
        own: list[PageWord] = []
        signs = ""  # at the start of the line
        for text, spoken in _spoken_parts(line):
            if spoken:
                own.append(PageWord(signs + text, spoken, number, text[-1] in STOPS))
                signs = ""
            elif own:
                own[-1] = own[-1]._replace(text=f"{own[-1].text} {text}", stops=True)
            else:
                signs += f"{text} "
        if words and not own:
            words[-1] = words[-1]._replace(stops=True)
        words += own
    return words


def _rejoined(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with the first part of a hyphenated word moved to the line of the second.

    A soft hyphen, which is not spoken, stands between the parts; the lines have no others.
    """
    first = ""
    for line, following in pairwise([*lines, ""]):
        line = line.strip()
        line = first + line[:-1].replace(SOFT_HYPHEN, "") + line[-1:]
        first = ""
        if following.lstrip()[:1].islower() and _BREAK.search(line):
            *others, word = line.rsplit(maxsplit=1)
            line, first = "".join(others), word[:-1] + SOFT_HYPHEN
        yield line.removesuffix(SOFT_HYPHEN)


def _spoken_parts(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each as printed and as spoken: single words where that is right.

    Words are one part if they are spoken otherwise together than apart, as in "No. 5".
    """
    printed, tokens = line.split(), with_roman_numerals(line).split()
    apart = [normalize(token) for token in tokens]
    starts = [*range(len(tokens))]
    if " ".join(filter(None, apart)) != normalize(" ".join(tokens)):
        starts = [at for at in starts if at == 0 or _is_boundary(tokens, at)]
    for start, end in pairwise([*starts, len(tokens)]):
        is_single = end == start + 1
        spoken = apart[start] if is_single else normalize(" ".join(tokens[start:end]))
        yield " ".join(printed[start:end]).replace(SOFT_HYPHEN, "-"), spoken


def _is_boundary(tokens: Sequence[str], at: int) -> bool:
    """Return whether the words before and after a place are spoken together as they are apart."""
    before, after = (
        " ".join(each) for each in (tokens[max(0, at - NEAR) : at], tokens[at:][:NEAR])
    )
    together = normalize(f"{before} {after}").split()
    return together == [*normalize(before).split(), *normalize(after).split()]


def sentence_of_each(words: Sequence[PageWord]) -> list[int]:
    """Return the number of the sentence of each word of a page; a blank line ends one too."""
    numbers: list[int] = []
    for paragraph in _paragraphs(words):
        first = numbers[-1] + 1 if numbers else 0
        sentences = split_sentences(" ".join(word.text for word in paragraph))
        of_tokens = [n for n, sentence in enumerate(sentences, first) for _ in sentence.split()]
        token = 0
        for word in paragraph:
            numbers.append(of_tokens[token])
            token += len(word.text.split())
    return numbers


def _paragraphs(words: Sequence[PageWord]) -> Iterator[Sequence[PageWord]]:
    starts = [n for n, (one, two) in enumerate(pairwise(words), 1) if two.line > one.line + 1]
    for start, end in pairwise([0, *starts, len(words)]):
        yield words[start:end]
