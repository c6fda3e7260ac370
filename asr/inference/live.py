"""Recognition while somebody speaks: samples in, text out; final at pauses, partial meanwhile.

The samples since the last final text are encoded anew every `HOP` seconds. The CTC head gives the
pauses, a greedy search the partial text. At a pause the speech before it is decoded as `transcribe`
decodes a piece. The encoder is bidirectional, so a partial text may change until it is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.inference.cutting import (
    FRAME,
    Cut,
    Mask,
    Samples,
    cut_at_pause,
    cut_piece,
    next_cut,
    speech_frames,
)
from asr.inference.decoding import decode
from asr.inference.pieces import pad, piece_of
from asr.inference.recognizer import Recognizer
from asr.inference.spelling import with_digits
from asr.results import Segment, word_record
from asr.search.greedy import greedy
from asr.search.limits import step_limits

HOP: Final = 0.4  # seconds of audio between two looks at it
KEPT: Final = 1.0  # seconds of silence kept before speech, which may have begun unnoticed
LOWEST_RATE: Final = 8_000  # Hz
HIGHEST_RATE: Final = 192_000  # Hz

_SIZE: Final = round(FRAME * SAMPLE_RATE)  # samples of a frame


class Partial(NamedTuple):
    """Bare text since `start` seconds, which may change; empty if no word has been said yet."""

    start: float
    text: str

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return {"type": "partial", "start": round(self.start, 3), "text": self.text}


class Finalised(NamedTuple):
    """A segment that does not change any more."""

    segment: Segment

    def record(self) -> dict[str, Any]:
        """Return the JSON record; `text` and `word` are as written."""
        return {
            "type": "final",
            "start": round(self.segment.start, 3),
            "end": round(self.segment.end, 3),
            "text": self.segment.written,
            "words": [word_record(word) for word in self.segment.written_words],
        }


Event: TypeAlias = Partial | Finalised


def pcm_samples(content: bytes) -> Samples:
    """Return 16-bit little-endian samples as floats in [-1, 1)."""
    return np.frombuffer(content, "<i2").astype(np.float32) / np.float32(2**15)


class LiveText:
    """The text of samples that arrive one chunk after another.

    Work is done on blocks of `HOP` seconds, however the samples are divided into chunks: what
    becomes final does not depend on that division.

    Raises:
        UserError: the model has no CTC head, or the rate is out of range.
    """

    def __init__(self, recognizer: Recognizer, rate: int = SAMPLE_RATE) -> None:
        if not recognizer.loaded.engine.has_ctc:
            raise UserError("live recognition needs a model with a CTC head")
        if not LOWEST_RATE <= rate <= HIGHEST_RATE:
            raise UserError(
                f"a rate of {rate} Hz; live audio has {LOWEST_RATE:,} to {HIGHEST_RATE:,}"
            )
        self._recognizer = recognizer
        self._block = round(HOP * rate)  # given samples that are resampled at once
        self._given = np.zeros(0, np.float32)
        self._resampler = None
        if rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, "float32", "HQ")
        self._samples = np.zeros(0, np.float32)  # at 16 kHz, since the last cut
        self._start = 0  # samples before them
        self._shown = ""

    @property
    def duration(self) -> float:
        """Seconds of audio that have been processed."""
        return (self._start + len(self._samples)) / SAMPLE_RATE

    def push(self, samples: NDArray[np.float32]) -> Iterator[Event]:
        """Add samples (S,) in [-1, 1]; yield what is known then."""
        self._given = np.concatenate([self._given, samples])
        while len(self._given) >= self._block:
            block, self._given = self._given[: self._block], self._given[self._block :]
            self._add(block, is_last=False)
            yield from self._look()

    def finish(self) -> Iterator[Event]:
        """Yield the rest: the audio has ended. Nothing may be pushed after that."""
        self._add(self._given, is_last=True)
        self._given = np.zeros(0, np.float32)
        limit = self._limit
        while len(self._samples):
            mask, _ = self._heard(self._samples)
            cut = next_cut(mask, limit, is_last=True)
            yield from self._cut(cut._replace(end=len(mask)) if cut.end >= len(mask) else cut)

    @property
    def _limit(self) -> int:
        """Longest segment in frames."""
        return round(self._recognizer.decoding.segment_seconds / FRAME)

    def _add(self, block: Samples, is_last: bool) -> None:
        if self._resampler is not None:
            block = self._resampler.resample_chunk(block, last=is_last)
        self._samples = np.concatenate([self._samples, block])

    def _look(self) -> Iterator[Event]:
        """Cut off what has become final, and say what is partial."""
        mask, text = self._heard(self._samples)
        cut = cut_at_pause(mask, self._limit)
        if cut is None and len(mask) > self._limit:
            cut = next_cut(mask, self._limit, is_last=False)
        if cut is not None and cut.is_silent:
            cut = cut._replace(end=min(cut.end, len(mask) - round(KEPT / FRAME)))
        if cut is not None and cut.end > 0:
            found = [*self._cut(cut)]
            yield from found
            if found:  # the rest may hold words already
                self._shown = ""
                yield from self._look()
                return
            text = ""  # what was shown was no speech
        if text != self._shown:
            self._shown = text
            yield Partial(self._start / SAMPLE_RATE, text)

    def _heard(self, samples: Samples) -> tuple[Mask, str]:
        """Return the frames with speech, and the text of a greedy search."""
        loaded = self._recognizer.loaded
        piece = piece_of(samples)
        if piece.is_silent:
            return np.zeros(-(-len(samples) // _SIZE), bool), ""
        encoded = loaded.engine.encode(pad([piece]))
        limits = step_limits(np.array([piece.duration]))
        guard = self._recognizer.decoding.search.guard
        (found,) = greedy(loaded.engine.decoder(encoded.memory), limits, guard)
        mask = speech_frames(loaded, encoded, len(samples))
        return mask, loaded.vocabulary.decode(found.tokens)

    def _cut(self, cut: Cut) -> Iterator[Finalised]:
        """Decode the samples before a cut, and forget them."""
        samples = self._samples[: cut.end * _SIZE]
        piece = cut_piece(samples, self._start, cut.is_silent)
        self._samples = self._samples[len(samples) :]
        self._start += len(samples)
        recognizer = self._recognizer
        (segment,) = decode(recognizer.loaded, [piece], recognizer.decoding)
        if segment.words:
            yield Finalised(self._spelt(segment))

    def _spelt(self, segment: Segment) -> Segment:
        """Add how the words are written, as a text of its own: what follows is not known."""
        punctuator = self._recognizer.loaded.punctuator
        if punctuator is not None:
            words = [word.text for word in segment.words]
            segment = replace(segment, spellings=tuple(punctuator(words)))
        return next(with_digits([segment])) if self._recognizer.digits else segment
