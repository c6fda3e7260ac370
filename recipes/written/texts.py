"""Texts as people write them: running text and single sentences, as bare words with labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from asr.errors import UserError
from asr.text.lines import read_entries, read_lines
from asr.text.written import Case, Written, begins_sentence, read_written

FEWEST, MOST = 2, 120  # words of a sentence that is used
_ARTICLE = re.compile(r"<doc [^>]*>\n[^\n]*\n(.*?)</doc>", re.S)  # without its title
_EMPTY_BRACKETS = re.compile(r"\s*\([^\w)]*\)")  # of pronunciations that were left out
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*$")


class Source(NamedTuple):
    """The sentences of a file in order; `runs`: whether they follow each other."""

    name: str
    sentences: list[list[Written]]
    runs: bool


def read_source(file: Path, most: int | None = None) -> Source:
    """Read a file by its ending; most: words of a book or of articles that are read, about.

    ``.jsonl``: the "text" of a manifest. ``.csv.gz``: LJSpeech's metadata. ``.gz``: tab-separated
    pairs, English first. ``.txt``: a book. No ending: articles of Wikipedia, as WikiExtractor
    writes them.

    Raises:
        UserError: the file cannot be read, or is of no known kind.
    """
    name = file.name
    if name.endswith(".jsonl"):
        spoken = [json.loads(line.text)["text"] for line in read_entries(file)]
        return Source(name, list(_apart(spoken)), False)
    if name.endswith(".csv.gz"):
        rows = [line.text.split("|") for line in read_lines(file)]
        return Source(name, _sentences(" ".join(row[1] for row in rows)), True)
    if name.endswith(".gz"):
        english = dict.fromkeys(line.text.split("\t")[0] for line in read_lines(file))
        return Source(name, list(_apart(english)), False)
    if name.endswith(".txt"):
        book = _book((line.text for line in read_lines(file)), most)
        return Source(name, _without_emphasis(_sentences(book)), True)
    if not file.suffix:
        paragraphs = _paragraphs(file.read_text("utf-8"), most)
        return Source(name, [each for part in paragraphs for each in _sentences(part)], True)
    raise UserError(f"{file}: wanted .txt, .jsonl, .gz, .csv.gz or a file of articles")


def key_of(sentence: Iterable[Written]) -> str:
    """Return the bare words of a sentence, to find the same one elsewhere."""
    return " ".join(each.word for each in sentence)


def _apart(texts: Iterable[str]) -> Iterator[list[Written]]:
    for text in texts:
        words = read_written(text)
        if FEWEST <= len(words) <= MOST:
            yield words


def _sentences(text: str) -> list[list[Written]]:
    """Split running text where a sentence begins; too long ones (lists, verses) are left out."""
    words = read_written(text)
    found: list[list[Written]] = []
    for word, begins in zip(words, begins_sentence(words), strict=True):
        if begins:
            found.append([])
        found[-1].append(word)
    return [each for each in found if FEWEST <= len(each) <= MOST]


def _book(lines: Iterable[str], most: int | None) -> str:
    """Join the lines of a book up to `most` words, but for headings, which are in capitals."""
    words = (word for line in lines if not line.isupper() for word in line.split())
    return " ".join(islice(words, most))


def _paragraphs(articles: str, most: int | None) -> Iterator[str]:
    """Yield paragraphs that end like a sentence, up to `most` words; others are headings."""
    words = 0
    for article in _ARTICLE.finditer(articles):
        for paragraph in article[1].split("\n"):
            if most is not None and words > most:
                return
            if _SENTENCE_END.search(paragraph):
                words += len(paragraph.split())
                yield _EMPTY_BRACKETS.sub("", paragraph)


def _without_emphasis(sentences: list[list[Written]]) -> list[list[Written]]:
    """Return sentences without words in capitals, which novels use for emphasis."""
    return [
        [each._replace(case=Case.LOWER) if each.case is Case.UPPER else each for each in sentence]
        for sentence in sentences
    ]
