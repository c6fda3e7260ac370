"""What a recogniser says of a recording: text, times, confidence, and where it looked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asr.render.subtitles import Span

# The worst that befell a segment is what is said of the whole.
_WORST_FIRST = ("repeat", "length", "eos", "silence")


@dataclass(frozen=True, eq=False)
class Segment:
    """One stretch of a recording, decoded in one piece.

    start, end: seconds from the beginning of the recording; so are the times of characters, words.
    characters: one `Span` for each token, spaces included; confidence is its probability.
    weights: (U, T), where the decoder looked for each of the U characters among T annotations,
        the first of which begins at `start`. (0, 0) where nothing was decoded.
    log_probability: of characters and end, in nats, by the decoder alone; 0 where nothing was.
    stop_reason: "eos", "length", "repeat" (see `asr.search.hypothesis.Hypothesis`), or "silence":
        there is no speech in it, and it was not decoded.
    """

    start: float
    end: float
    words: tuple[Span, ...]
    characters: tuple[Span, ...] = field(repr=False)
    weights: NDArray[np.float32] = field(repr=False)
    log_probability: float
    stop_reason: str

    @property
    def text(self) -> str:
        """The words, parted by single spaces."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, eq=False)
class Transcript:
    """The text of a recording with all that belongs to it.

    path: None for what did not come from a file. duration: seconds of the whole recording.
    seconds_per_annotation: what one column of `weights` stands for.
    segments: one, or several where the recording is long; they cover all of it.
    """

    path: str | None
    duration: float
    seconds_per_annotation: float
    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """All words, parted by single spaces; "" where nobody speaks."""
        return " ".join(word.text for word in self.words)

    @cached_property
    def words(self) -> tuple[Span, ...]:
        """Words with start and end in seconds, and confidence from 0 to 1."""
        return tuple(word for segment in self.segments for word in segment.words)

    @cached_property
    def characters(self) -> tuple[Span, ...]:
        """Characters with start and end in seconds, and a space of no length between segments."""
        joined: list[Span] = []
        for segment in self.segments:
            if joined and segment.characters:
                joined.append(Span(" ", segment.start, segment.start))
            joined += segment.characters
        return tuple(joined)

    @property
    def log_probability(self) -> float:
        """Log-probability of all that was decoded, in nats, by the decoder alone."""
        return sum(segment.log_probability for segment in self.segments)

    @property
    def stop_reason(self) -> str:
        """The worst of the segments' reasons: "repeat", "length", "eos", "silence"."""
        reasons = {segment.stop_reason for segment in self.segments}
        return next(reason for reason in _WORST_FIRST if reason in reasons)

    @property
    def weights(self) -> NDArray[np.float32]:
        """Attention weights (U, T): a row for each of `characters`, T columns over the duration.

        The spaces between segments have no weight. Made anew at each call where there are several
        segments, and then U·T numbers large: for an hour of audio take the segments' own.
        """
        if len(self.segments) == 1:
            return self.segments[0].weights
        starts = [round(each.start / self.seconds_per_annotation) for each in self.segments]
        ends = [
            start + each.weights.shape[1] for start, each in zip(starts, self.segments, strict=True)
        ]
        columns = max(*ends, math.ceil(self.duration / self.seconds_per_annotation))
        joined = np.zeros((len(self.characters), columns), np.float32)
        row = 0
        for start, end, segment in zip(starts, ends, self.segments, strict=True):
            row += bool(row and segment.characters)
            stop = row + len(segment.weights)
            joined[row:stop, start:end] = segment.weights
            row = stop
        return joined

    def record(self) -> dict[str, Any]:
        """Return what goes into JSON: of the recording, of its segments, and of its words."""
        return {
            "path": self.path,
            "text": self.text,
            "duration": round(self.duration, 3),
            "log_probability": round(self.log_probability, 3),
            "stop_reason": self.stop_reason,
            "segments": [_segment_record(segment) for segment in self.segments],
            "words": [_word_record(word) for word in self.words],
        }


def _segment_record(segment: Segment) -> dict[str, Any]:
    return {
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "log_probability": round(segment.log_probability, 3),
        "stop_reason": segment.stop_reason,
    }


def _word_record(word: Span) -> dict[str, Any]:
    return {
        "word": word.text,
        "start": round(word.start, 3),
        "end": round(word.end, 3),
        "confidence": None if word.confidence is None else round(word.confidence, 4),
    }
