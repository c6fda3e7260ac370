"""The results that all packages use: timed text and transcripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class StopReason(StrEnum):
    """Why decoding ended.

    EOS: the decoder emitted end-of-sentence. LENGTH: the length limit was reached. REPEAT: the
    repetition guard stopped a loop; the repeated part is cut off. SILENCE: no speech was found, and
    nothing was decoded.
    """

    EOS = "eos"
    LENGTH = "length"
    REPEAT = "repeat"
    SILENCE = "silence"


# The stop reason of a recording is that of its worst segment.
_WORST_FIRST = (StopReason.REPEAT, StopReason.LENGTH, StopReason.EOS, StopReason.SILENCE)


class Span(NamedTuple):
    """A piece of text; start and end in seconds, `confidence` from 0 to 1 or None."""

    text: str
    start: float
    end: float
    confidence: float | None = None


class Character(Span):
    """One output token of the recogniser; its confidence is its probability."""

    __slots__ = ()


class Word(Span):
    """A word; its confidence is the probability that it is right.

    Where the model has no calibration for the search, and in alignment with a given text, it is the
    geometric mean of its characters' probabilities.
    """

    __slots__ = ()


class Alternative(NamedTuple):
    """A hypothesis of the search for a segment; score, log_probability: see `Segment`."""

    text: str
    score: float
    log_probability: float


@dataclass(frozen=True, eq=False)
class Segment:
    """A part of a recording, decoded at once.

    start, end: seconds from the beginning of the recording, like the times of characters and
        words.
    characters: one for each token, spaces included.
    weights: (U, T) attention weights of the U characters over T annotations; the first annotation
        begins at `start`. (0, 0) if nothing was decoded.
    log_probability: of the characters and end-of-sentence, from the decoder alone, in nats; 0 if
        nothing was decoded.
    score: of the text in the search, in nats: decoder, CTC and language model as weighted.
    allowed: (U, T), True where the attention window allowed attention; None without a window.
    english: the probability that this is English speech which the model can transcribe; None if
        the model has no calibration of it for the search, or nothing was decoded.
    low_confidence: whether the text is likely to be invented; subtitles leave it out.
    spellings: each of `words` as it is written, with the punctuation after it ("Hello,"), or empty
        if it belongs to the word before it ("23" for "twenty three"); None for the bare words.
        Everything else holds the bare words.
    alternatives: the best hypotheses, of which the first is the text; empty unless asked for.
    """

    start: float
    end: float
    words: tuple[Word, ...]
    characters: tuple[Character, ...] = field(repr=False)
    weights: NDArray[np.float32] = field(repr=False)
    log_probability: float
    stop_reason: StopReason
    score: float = 0.0
    allowed: NDArray[np.bool_] | None = field(default=None, repr=False)
    english: float | None = None
    low_confidence: bool = False
    spellings: tuple[str, ...] | None = field(default=None, repr=False)
    alternatives: tuple[Alternative, ...] = field(default=(), repr=False)

    @property
    def text(self) -> str:
        """The words, bare, separated by single spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def written(self) -> str:
        """The text with punctuation and case; `text` if the model writes none."""
        return " ".join(word.text for word in self.written_words)

    @property
    def written_words(self) -> tuple[Word, ...]:
        """The words as they are written, with their times and confidence.

        Words that are written as one have its least confidence.
        """
        if self.spellings is None:
            return self.words
        written: list[Word] = []
        for word, spelling in zip(self.words, self.spellings, strict=True):
            if spelling:
                written.append(word._replace(text=spelling))
            else:
                written[-1] = _extended(written[-1], word)
        return tuple(written)


@dataclass(frozen=True, eq=False)
class Transcript:
    """The text of a recording with times, confidence and attention weights.

    path: None if the recording did not come from a file. duration: seconds of the whole recording.
    seconds_per_annotation: duration of one column of `weights`.
    segments: one, or several for a long recording; together they cover all of it.
    """

    path: str | None
    duration: float
    seconds_per_annotation: float
    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """All words, bare, separated by single spaces; empty if no speech was found."""
        return " ".join(word.text for word in self.words)

    @property
    def written(self) -> str:
        """The text with punctuation and case; `text` if the model writes none."""
        return " ".join(word.text for word in self.written_words)

    @cached_property
    def written_words(self) -> tuple[Word, ...]:
        """The words as they are written, with their times and confidence."""
        return tuple(word for segment in self.segments for word in segment.written_words)

    @property
    def is_written(self) -> bool:
        """Whether the transcript has punctuation, case or digits."""
        return any(segment.spellings is not None for segment in self.segments)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Words with start and end in seconds, and confidence from 0 to 1."""
        return tuple(word for segment in self.segments for word in segment.words)

    @cached_property
    def characters(self) -> tuple[Character, ...]:
        """Characters with start and end in seconds; a space of zero duration joins segments."""
        joined: list[Character] = []
        for segment in self.segments:
            if joined and segment.characters:
                joined.append(Character(" ", segment.start, segment.start))
            joined += segment.characters
        return tuple(joined)

    @property
    def log_probability(self) -> float:
        """Log-probability of all segments from the decoder alone, in nats."""
        return sum(segment.log_probability for segment in self.segments)

    @property
    def stop_reason(self) -> StopReason:
        """The worst stop reason of the segments: repeat, length, eos, silence, in this order."""
        reasons = {segment.stop_reason for segment in self.segments}
        return next((each for each in _WORST_FIRST if each in reasons), StopReason.SILENCE)

    @property
    def english(self) -> float | None:
        """The mean of the segments' `english`, weighted by characters; None if none is known."""
        known = [
            (each.english, len(each.characters))
            for each in self.segments
            if each.english is not None and each.characters
        ]
        total = sum(count for _, count in known)
        return sum(english * count for english, count in known) / total if total else None

    @property
    def weights(self) -> NDArray[np.float32]:
        """Attention weights (U, T): a row for each of `characters`, T columns over the duration.

        Spaces between segments, and the characters of segments without weights, have weight 0.
        With several segments the matrix is assembled at each call and has U·T entries: for an hour
        of audio use the weights of the segments.
        """
        return self._joined([segment.weights for segment in self.segments])

    @property
    def allowed(self) -> NDArray[np.bool_] | None:
        """Where the window allowed attention, (U, T) like `weights`; None without a window."""
        found = [segment.allowed for segment in self.segments]
        if all(each is None for each in found):
            return None
        filled = [
            np.zeros(segment.weights.shape, np.float32) if each is None else each
            for segment, each in zip(self.segments, found, strict=True)
        ]
        return self._joined(filled) > 0

    def _joined(self, matrices: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Join the matrices of the segments, each (U, T) or empty, to one of the recording."""
        if len(matrices) == 1 and len(matrices[0]) == len(self.characters):
            joined: NDArray[np.float32] = matrices[0]
            return joined
        starts = [round(each.start / self.seconds_per_annotation) for each in self.segments]
        ends = [start + each.shape[1] for start, each in zip(starts, matrices, strict=True)]
        columns = max([*ends, math.ceil(self.duration / self.seconds_per_annotation)])
        joined = np.zeros((len(self.characters), columns), np.float32)
        row = 0
        for segment, start, end, each in zip(self.segments, starts, ends, matrices, strict=True):
            row += bool(row and segment.characters)  # the space between segments
            joined[row : row + len(each), start:end] = each
            row += len(segment.characters)
        return joined

    def record(self) -> dict[str, Any]:
        """Return the JSON record of the recording, its segments and its words.

        "text" and "word" are bare; "written" is added to all three where the model writes it. It
        is empty for a word that is written with the one before it.
        """
        record: dict[str, Any] = {
            "path": self.path,
            "text": self.text,
            "duration": round(self.duration, 3),
            "log_probability": round(self.log_probability, 3),
            "stop_reason": self.stop_reason,
            "english": _rounded(self.english),
            "segments": [_segment_record(segment) for segment in self.segments],
            "words": [word_record(word) for word in self.words],
        }
        if self.is_written:
            record["written"] = self.written
            for part, segment in zip(record["segments"], self.segments, strict=True):
                part["written"] = segment.written
            spellings = (each for segment in self.segments for each in _spellings(segment))
            for part, spelling in zip(record["words"], spellings, strict=True):
                part["written"] = spelling
        return record

    def record_with_weights(self) -> dict[str, Any]:
        """Return `record` with characters, and the attention weights of each segment."""
        return {
            **self.record(),
            "characters": [
                {"character": each.text, "start": round(each.start, 3), "end": round(each.end, 3)}
                for each in self.characters
            ],
            "seconds_per_annotation": self.seconds_per_annotation,
            "segments": [
                {
                    "start": round(segment.start, 3),
                    "end": round(segment.end, 3),
                    "stop_reason": segment.stop_reason,
                    "weights": weights_record(segment.weights),
                }
                for segment in self.segments
            ],
        }


def _spellings(segment: Segment) -> Sequence[str]:
    return segment.spellings or [word.text for word in segment.words]


def _extended(word: Word, other: Word) -> Word:
    """Return a word with the times of another one after it that belongs to it."""
    known = [each.confidence for each in (word, other) if each.confidence is not None]
    return word._replace(end=other.end, confidence=min(known, default=None))


def _segment_record(segment: Segment) -> dict[str, Any]:
    record: dict[str, Any] = {
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "log_probability": round(segment.log_probability, 3),
        "stop_reason": segment.stop_reason,
        "english": _rounded(segment.english),
        "low_confidence": segment.low_confidence,
    }
    if segment.alternatives:
        record["alternatives"] = [
            {
                "text": each.text,
                "score": round(each.score, 3),
                "log_probability": round(each.log_probability, 3),
            }
            for each in segment.alternatives
        ]
    return record


def word_record(word: Word) -> dict[str, Any]:
    """Return the JSON record of a word."""
    return {
        "word": word.text,
        "start": round(word.start, 3),
        "end": round(word.end, 3),
        "confidence": _rounded(word.confidence),
    }


def without_attention(segment: Segment) -> Segment:
    """Return a segment without weights and characters: they are most of its memory."""
    return replace(segment, weights=np.zeros((0, 0), np.float32), allowed=None, characters=())


def weights_record(weights: NDArray[np.float32]) -> list[list[float]]:
    """Return attention weights as lists for JSON."""
    return [[round(each, 4) for each in row] for row in weights.tolist()]


def _rounded(probability: float | None) -> float | None:
    return None if probability is None else round(probability, 4)
