"""Sentence pairs for translation: reading, normalisation, and splits by source sentence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from asr.errors import UserError
from asr.text.lines import read_lines


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def read_pairs(path: str | Path, limit: int = 0) -> list[Pair]:
    """Read `source<TAB>target` lines of a file, plain or compressed (see `read_lines`).

    Further columns (such as an attribution) and blank lines are ignored. limit: largest number of
    pairs; 0 reads all.

    Raises UserError if the file cannot be read, a line lacks the tab or one side, or there is no
    pair.
    """
    path = Path(path)
    pairs = list(islice(_pairs(path), limit or None))
    if not pairs:
        raise UserError(f"{path}: no pairs in it; wanted lines of source<TAB>target")
    return pairs


def read_parallel(source: str | Path, target: str | Path, limit: int = 0) -> list[Pair]:
    """Read two parallel files, plain or compressed, in which line n translates line n.

    Lines that are blank in both files are ignored. limit: as in `read_pairs`.

    Raises UserError if a file cannot be read, the files have different numbers of lines, a line is
    blank in only one of them, or there is no pair.
    """
    paths = Path(source), Path(target)
    found: list[Pair] = []
    lines = zip_longest(*(read_lines(path) for path in paths))
    for number, sides in enumerate(lines, 1):
        if limit and len(found) == limit:
            break
        for path, side in zip(paths, sides, strict=True):
            if side is None:
                raise UserError(f"{path}: ends after {number - 1} lines, the other file has more")
        pair = Pair(*(tidy(side.text) for side in sides))
        if not any(pair):
            continue
        if not all(pair):
            where = paths[0] if pair.target else paths[1]
            raise UserError(f"{where}:{number}: blank, but not in the other file")
        found.append(pair)
    if not found:
        raise UserError(f"{paths[0]}: no pairs in it; wanted one sentence per line")
    return found


def read_sentences(path: str | Path) -> list[str]:
    """Read a list of sentences, one per line, plain or compressed; blank lines are ignored.

    Raises UserError if the file cannot be read.
    """
    return [tidied for line in read_lines(path) if (tidied := tidy(line.text))]


def read_classes(path: str | Path) -> list[list[Pair]]:
    """Read classes of words with translations, lines as in `read_pairs`, blank lines between.

    Raises UserError if the file cannot be read, a line lacks the tab or one side, or a class has a
    single line.
    """
    path = Path(path)
    classes: list[list[Pair]] = [[]]
    for number, line in read_lines(path):
        if line.strip():
            classes[-1].append(_pair(line, f"{path}:{number}"))
        elif classes[-1]:
            classes.append([])
    classes = [words for words in classes if words]
    for words in classes:
        if len(words) == 1:
            raise UserError(
                f"{path}: {words[0].source!r} is the only word of its class; wanted two or more"
            )
    return classes


def sentence_key(text: str) -> str:
    """Return the words of a sentence in lower case without punctuation, for comparison.

    A text without words is returned in lower case.
    """
    return " ".join(re.findall(r"\w+", text.casefold())) or text.casefold()


def part(
    pairs: Iterable[Pair], lists: Sequence[Iterable[str]]
) -> tuple[list[Pair], list[list[Pair]]]:
    """Split pairs by lists of source sentences: the remaining pairs, and those of each list.

    Spellings that differ only in case and punctuation are the same sentence (`sentence_key`). A
    sentence in several lists belongs to the first.
    """
    place: dict[str, int] = {}
    for number, sentences in enumerate(lists):
        for sentence in sentences:
            place.setdefault(sentence_key(sentence), number)
    rest: list[Pair] = []
    listed: list[list[Pair]] = [[] for _ in lists]
    for pair in pairs:
        number = place.get(sentence_key(pair.source), -1)
        (rest if number < 0 else listed[number]).append(pair)
    return rest, listed


def gather(pairs: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """Return all translations of each source, in order, without repetitions."""
    found: dict[str, dict[str, None]] = {}
    for pair in pairs:
        found.setdefault(pair.source, {})[pair.target] = None
    return {source: tuple(targets) for source, targets in found.items()}


def tidy(text: str) -> str:
    """Replace curly apostrophes by plain ones, and white space by single spaces.

    In French, punctuation follows several kinds of no-break space.
    """
    return " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def tokenise(text: str) -> str:
    """Lower-case the text and insert a space before each , . ! ?

    Source: the translation chapters of "Dive into Deep Learning" (Zhang et al.).
    """
    return tidy(_MARK.sub(r" \1", text.lower()))


def hold_out(
    pairs: Iterable[Pair], share: float, keep: Sequence[str] = ()
) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into training and held-out pairs by their source sentences.

    About `share` of the distinct sources are held out, each with all of its translations.
    Sources that differ only in case and punctuation stay together. The assignment depends only on
    the words of a source, so it is the same in a larger file. Sources in `keep` are not held out.
    """
    kept = {sentence_key(each) for each in keep}
    train: list[Pair] = []
    held: list[Pair] = []
    for pair in pairs:
        words = sentence_key(pair.source)
        out = words not in kept and _fraction(words) < share
        (held if out else train).append(pair)
    return train, held


_MARK = re.compile(r"([,.!?])")


def _pairs(path: Path) -> Iterator[Pair]:
    for number, line in read_lines(path):
        if line.strip():  # not stripped: a tab at an edge means an empty side
            yield _pair(line, f"{path}:{number}")


def _pair(line: str, where: str) -> Pair:
    source, tab, rest = line.partition("\t")
    if not tab:
        raise UserError(f"{where}: no tab in {line.strip()[:40]!r}; wanted source<TAB>target")
    source, target = tidy(source), tidy(rest.partition("\t")[0])
    if not source or not target:
        side = "target" if source else "source"
        raise UserError(f"{where}: the {side} is empty; wanted source<TAB>target")
    return Pair(source, target)


def _fraction(text: str) -> float:
    """Return a number in [0, 1) that depends on the text alone, uniform over texts."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return int.from_bytes(digest[:4], "big") / 2**32
