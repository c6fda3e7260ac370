"""Segments of bare words → segments with words as people write them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from asr.results import Segment, Word
from asr.runtime.punctuator import Punctuator
from asr.text.digits import write_digits
from asr.text.names import Names

LONG_PAUSE: Final = 1.5  # seconds without a word

End = TypeVar("End")  # what follows the last segment of a recording


class _Waiting(NamedTuple):
    """A segment whose words are not all written yet: the parts to come, and those written."""

    segment: Segment
    parts: int
    written: tuple[str, ...] = ()


class PunctuatedSegments:
    """The segments of a recording with punctuation and case, as they come.

    A segment waits for the words after it, which decide about punctuation. `LONG_PAUSE` ends a
    sentence: the words before and after it are written as texts of their own. Names are written as
    they were given.
    """

    def __init__(self, punctuator: Punctuator, names: Names) -> None:
        self._punctuator = punctuator
        self._names = names
        self._text = punctuator.begin()
        self._waiting: deque[_Waiting] = deque()
        self._end = math.inf  # of the last word; before the first one there is no pause

    def add(self, segment: Segment) -> Iterator[Segment]:
        """Add the next segment; yield those that can be written now, in order."""
        parts = list(self._parts(segment.words))
        self._waiting.append(_Waiting(segment, len(parts)))
        for follows_pause, words in parts:
            if follows_pause:
                yield from self._written(self._text.finish())
                self._text = self._punctuator.begin()
            yield from self._written(self._text.add(words))

    def finish(self) -> Iterator[Segment]:
        """Yield the segments that still wait."""
        yield from self._written(self._text.finish())

    def _parts(self, words: Sequence[Word]) -> Iterator[tuple[bool, list[str]]]:
        """Split words at long pauses; yield whether one comes before a part, and its words."""
        follows_pause, part = False, list[str]()
        for word in words:
            if word.start - self._end >= LONG_PAUSE:
                if part:
                    yield follows_pause, part
                follows_pause, part = True, []
            part.append(word.text)
            self._end = word.end
        yield follows_pause, part

    def _written(self, parts: Iterable[Sequence[str]]) -> Iterator[Segment]:
        for part in parts:
            segment, left, written = self._waiting.popleft()
            written = (*written, *part)
            if left > 1:
                self._waiting.appendleft(_Waiting(segment, left - 1, written))
            else:
                words = [word.text for word in segment.words]
                yield replace(segment, spellings=self._names.written(words, written))


def punctuated(
    results: Iterable[Segment | End], punctuator: Punctuator, names: Names
) -> Iterator[Segment | End]:
    """Add punctuation and case to the segments of recordings; each waits for words after it."""
    text = None
    for each in results:
        text = text or PunctuatedSegments(punctuator, names)
        if isinstance(each, Segment):
            yield from text.add(each)
        else:
            yield from text.finish()
            text = None
            yield each


def with_digits(results: Iterable[Segment | End]) -> Iterator[Segment | End]:
    """Write the numbers of segments in digits."""
    for each in results:
        if isinstance(each, Segment):
            words = [word.text for word in each.words]
            spellings = words if each.spellings is None else each.spellings
            yield replace(each, spellings=tuple(write_digits(words, spellings)))
        else:
            yield each
