"""Segments of bare words → segments with words as people write them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from asr.results import Segment
from asr.runtime.punctuator import Punctuator
from asr.text.digits import write_digits

End = TypeVar("End")  # what follows the last segment of a recording


class PunctuatedSegments:
    """The segments of a recording with punctuation and case, as they come.

    A segment waits for the words after it, which decide about punctuation.
    """

    def __init__(self, punctuator: Punctuator) -> None:
        self._text = punctuator.begin()
        self._waiting: deque[Segment] = deque()

    def add(self, segment: Segment) -> Iterator[Segment]:
        """Add the next segment; yield those that can be written now, in order."""
        self._waiting.append(segment)
        yield from self._written(self._text.add([word.text for word in segment.words]))

    def finish(self) -> Iterator[Segment]:
        """Yield the segments that still wait."""
        yield from self._written(self._text.finish())

    def _written(self, spellings: Iterable[Sequence[str]]) -> Iterator[Segment]:
        for each in spellings:
            yield replace(self._waiting.popleft(), spellings=tuple(each))


def punctuated(results: Iterable[Segment | End], punctuator: Punctuator) -> Iterator[Segment | End]:
    """Add punctuation and case to the segments of recordings; each waits for words after it."""
    text = None
    for each in results:
        text = text or PunctuatedSegments(punctuator)
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
