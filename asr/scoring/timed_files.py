"""Words and their times in CTM, TextGrid and JSON files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any, Final

from asr.errors import UserError
from asr.results import Span
from asr.text.lines import read_entries

ENDINGS: Final = ".ctm .TextGrid .json .jsonl .jsonl.gz"
# Preferred tiers of a TextGrid: words, Word, or as aligners name them for speakers: Mary - words.
_WORDS: Final = re.compile(r"(?:.*[^a-z])?words?", re.IGNORECASE)


def read_timed_words(path: Path) -> dict[str, list[Span]]:
    """Read the words of each recording of a file, or of those in a folder, by its name.

    .ctm: name, channel, start, duration, word, confidence. .TextGrid: the intervals with text of
    the tiers of `_WORDS`, else of the first tier; the name is that of the file. .json: a record as
    `asr transcribe` writes it, or a list of them; .jsonl: one in each line. A record has "words":
    objects with "word", "start" and "end", or lists [word, start, end]; its name is "id", or the
    file name of "path".

    Raises:
        UserError: a file cannot be read, or is not of this form; none is in a folder; or two in it
            have a recording of the same name.
    """
    if path.is_dir():
        return _of_folder(path)
    kind = path.suffix.lower()
    try:
        if kind == ".ctm":
            return _gathered(_ctm_word(path, *each) for each in read_entries(path, comment=";;"))
        if kind == ".textgrid":
            return {path.stem: _textgrid(path)}
        if kind == ".json":
            content = json.loads(path.read_text("utf-8"))
            records = content if isinstance(content, list) else [content]
            return dict(_record(each, str(path)) for each in records)
        if kind == ".jsonl" or path.name.lower().endswith(".jsonl.gz"):
            lines = read_entries(path)
            return dict(_record(json.loads(line), f"{path}:{number}") for number, line in lines)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: not JSON: {error}") from error
    raise UserError(f"{path}: unknown format of word times; wanted {ENDINGS}")


def _of_folder(folder: Path) -> dict[str, list[Span]]:
    """Read the files of a folder, at any depth."""
    endings = tuple(each.lower() for each in ENDINGS.split())
    owners: dict[str, Path] = {}
    found: dict[str, list[Span]] = {}
    for path in sorted(each for each in folder.rglob("*") if each.name.lower().endswith(endings)):
        for name, words in read_timed_words(path).items():
            if name in owners:
                raise UserError(f"{owners[name]} and {path}: both have a recording {name}")
            owners[name], found[name] = path, words
    if not owners:
        raise UserError(f"{folder}: no word times in this folder; wanted files in {ENDINGS}")
    return found


def _gathered(words: Iterable[tuple[str, Span]]) -> dict[str, list[Span]]:
    found: dict[str, list[Span]] = {}
    for name, word in words:
        found.setdefault(name, []).append(word)
    return found


def _ctm_word(path: Path, number: int, line: str) -> tuple[str, Span]:
    fields = line.split()
    try:
        name, _, start, duration, word = fields[:5]
        return name, _span(word, float(start), float(start) + float(duration))
    except ValueError as error:
        raise UserError(
            f"{path}:{number}: wanted recording, channel, start, duration and word, got {line!r}"
        ) from error


def _textgrid(path: Path) -> list[Span]:
    from praatio import textgrid
    from praatio.utilities.errors import PraatioException

    try:
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False)
    except (PraatioException, ValueError, IndexError, KeyError) as error:
        raise UserError(f"{path}: not a TextGrid: {error}") from error
    tiers = [grid.getTier(name) for name in grid.tierNames]
    intervals = [each for each in tiers if isinstance(each, textgrid.IntervalTier)]
    if not intervals:
        raise UserError(f"{path}: no tier of intervals in it")
    chosen = [each for each in intervals if _WORDS.fullmatch(each.name)] or intervals[:1]
    return sorted(
        (
            Span(each.label, float(each.start), float(each.end))
            for tier in chosen
            for each in tier.entries
            if each.label.strip()
        ),
        key=lambda word: word.start,
    )


def _record(content: Any, place: str) -> tuple[str, list[Span]]:
    try:
        name = content["id"] if "id" in content else Path(content["path"] or "-").stem
        words = [
            _span(each["word"], each["start"], each["end"])
            if isinstance(each, dict)
            else _span(*each)
            for each in content["words"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f'{place}: wanted "id" or "path", and "words" with word, start and end: {error!r}'
        ) from error
    return str(name), words


def _span(word: Any, start: Any, end: Any) -> Span:
    span = Span(str(word), float(start), float(end))
    if not isfinite(span.start) or not isfinite(span.end) or span.end < span.start:
        raise ValueError(f"times from {start} to {end}")
    return span
