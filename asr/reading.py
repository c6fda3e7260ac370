"""How a page was read aloud: the result of `asr read`, as `asr.results` has those of others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class ReadStatus(StrEnum):
    """How a word of a page was read.

    REPEATED: an earlier reading of a word that was read again; the last one counts. ADDED: a word
    that was said and is not on the page.
    """

    RIGHT = "right"
    MISREAD = "misread"
    SKIPPED = "skipped"
    REPEATED = "repeated"
    ADDED = "added"


class ReadWord(NamedTuple):
    """A word that was on the page or was said.

    text: as printed; of an added word, what was said. heard: what was said; None if skipped.
    start, end: seconds; None if skipped. confidence: probability that the page's word was said;
    of an added word, that of the transcript; None if skipped. line: of the page, from 0.
    place: of the word on the page, from 0; None if added.
    """

    text: str
    status: ReadStatus
    heard: str | None
    start: float | None
    end: float | None
    confidence: float | None
    line: int
    place: int | None


class Hesitation(NamedTuple):
    """A pause that no punctuation explains; word: index in `Reading.words` of the next word."""

    start: float
    end: float
    word: int


@dataclass(frozen=True)
class Reading:
    """How a page was read aloud.

    path: None if the recording did not come from a file. duration: seconds of the recording.
    words: those of the page in order, with added and repeated words where they were said.
    """

    path: str | None
    duration: float
    words: tuple[ReadWord, ...]
    hesitations: tuple[Hesitation, ...]

    def count(self, status: ReadStatus) -> int:
        """Return the number of words with a status."""
        return sum(word.status == status for word in self.words)

    @property
    def reached(self) -> int:
        """Number of the page's words up to the last one that was read."""
        read = (word.place for word in self.words if word.start is not None)
        return 1 + max((place for place in read if place is not None), default=-1)

    @property
    def accuracy(self) -> float:
        """Share of the page's words, up to the last one that was read, that were read right."""
        return self.count(ReadStatus.RIGHT) / max(1, self.reached)

    @property
    def seconds(self) -> float:
        """From the start of the first word that was said to the end of the last one."""
        starts = [word.start for word in self.words if word.start is not None]
        ends = [word.end for word in self.words if word.end is not None]
        return max(ends) - min(starts) if starts else 0.0

    @property
    def words_per_minute(self) -> float:
        """Words of the page read a minute, right or misread; 0 if none was."""
        return self._rate(ReadStatus.RIGHT, ReadStatus.MISREAD)

    @property
    def right_words_per_minute(self) -> float:
        """Words read right a minute, the usual measure of fluency; 0 if none was."""
        return self._rate(ReadStatus.RIGHT)

    def _rate(self, *statuses: ReadStatus) -> float:
        return 60 * sum(map(self.count, statuses)) / self.seconds if self.seconds else 0.0

    def record(self) -> dict[str, Any]:
        """Return the JSON record of the page, its hesitations and its words."""
        return {
            "path": self.path,
            "duration": round(self.duration, 3),
            "reached": self.reached,
            "accuracy": round(self.accuracy, 4),
            "words_per_minute": round(self.words_per_minute, 1),
            "right_words_per_minute": round(self.right_words_per_minute, 1),
            "counts": {status.value: self.count(status) for status in ReadStatus},
            "hesitations": [
                {"start": round(each.start, 3), "end": round(each.end, 3), "word": each.word}
                for each in self.hesitations
            ],
            "words": [_read_word_record(word) for word in self.words],
        }


def _read_word_record(word: ReadWord) -> dict[str, Any]:
    return {
        "word": word.text,
        "status": word.status.value,
        "heard": word.heard,
        "start": None if word.start is None else round(word.start, 3),
        "end": None if word.end is None else round(word.end, 3),
        "confidence": None if word.confidence is None else round(word.confidence, 4),
        "line": word.line,
    }
