"""Segments of bare words → segments with words as people write them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from asr.results import Segment
from asr.runtime.punctuator import Punctuator
from asr.text.digits import write_digits

End = TypeVar("End")  # what follows the last segment of a recording


def punctuated(results: Iterable[Segment | End], punctuator: Punctuator) -> Iterator[Segment | End]:
    """Add punctuation and case to the segments of recordings; each waits for words after it."""
    waiting: deque[Segment] = deque()
    text = None
    for each in results:
        text = text or punctuator.begin()
        if isinstance(each, Segment):
            waiting.append(each)
            known = text.add([word.text for word in each.words])
        else:
            known, text = text.finish(), None
        for spellings in known:
            yield replace(waiting.popleft(), spellings=tuple(spellings))
        if not isinstance(each, Segment):
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
