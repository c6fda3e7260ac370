"""Start and end times of the words of a corpus, from forced alignment or by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from asr.errors import UserError
from asr.text.lines import read_entries


class Timed(NamedTuple):
    """A word and its time in seconds."""

    word: str
    start: float
    end: float


def read_word_times(path: Path) -> dict[str, list[Timed]]:
    """Read JSON lines `{"id": "1-2-3", "words": [["pieces", 6.02, 6.52], …]}`, plain or compressed.

    Returns the words of each utterance by its id.

    Raises:
        UserError: the file cannot be read, or a line is not of this form.
    """
    times = {}
    for number, line in read_entries(path):
        try:
            table = json.loads(line)
            times[str(table["id"])] = [
                Timed(str(word), float(start), float(end)) for word, start, end in table["words"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f'{path}:{number}: wanted {{"id": …, "words": [[word, start, end], …]}}: {error!r}'
            ) from error
    return times


def timed_words(text: str, times: Sequence[Timed]) -> dict[int, Timed]:
    """Return the times of the words of a text, by their index.

    If `times` lists exactly the words of the text in order, all words have a time; otherwise only
    words that occur once in both.
    """
    words = text.split()
    if words == [each.word for each in times]:
        return dict(enumerate(times))
    in_text, in_times = Counter(words), Counter(each.word for each in times)
    known = {each.word: each for each in times if in_times[each.word] == 1}
    return {
        at: known[word] for at, word in enumerate(words) if in_text[word] == 1 and word in known
    }
