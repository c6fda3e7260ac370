"""When the words of a corpus are said, as a forced aligner or a person found out."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from asr.errors import UserError


class Timed(NamedTuple):
    """A word and its time in seconds."""

    word: str
    start: float
    end: float


def read_word_times(path: Path) -> dict[str, list[Timed]]:
    """Read JSON lines `{"id": "1-2-3", "words": [["pieces", 6.02, 6.52], …]}`; .gz too.

    Returns the words of each utterance, by its id.

    Raises:
        UserError: the file cannot be read, or a line is not of this form.
    """
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode().split("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
    times = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            table = json.loads(line)
            times[str(table["id"])] = [
                Timed(str(word), float(start), float(end)) for word, start, end in table["words"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f'{path}, line {number}: wanted {{"id": …, "words": [[word, start, end], …]}}: '
                f"{error!r}"
            ) from error
    return times


def timed_words(text: str, times: Sequence[Timed]) -> dict[int, Timed]:
    """Say which words of a text, counted from 0, have which time.

    All of them, where the times name all in their order; else those that occur once in both.
    """
    words = text.split()
    if words == [each.word for each in times]:
        return dict(enumerate(times))
    in_text, in_times = Counter(words), Counter(each.word for each in times)
    known = {each.word: each for each in times if in_times[each.word] == 1}
    return {
        at: known[word] for at, word in enumerate(words) if in_text[word] == 1 and word in known
    }
