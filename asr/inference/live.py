"""Recognition while somebody speaks: samples in, text out; final at pauses, partial meanwhile.

The samples since the last final text are encoded anew every `HOP` seconds. The CTC head gives the
pauses, a greedy search the partial text. At a pause the speech before it is decoded as `transcribe`
decodes a piece. The encoder is bidirectional, so a partial text may change until it is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.inference.cutting import Mask, Samples, no_speech, speech_frames
from asr.inference.decoding import decode
from asr.inference.live_audio import HOP, LiveAudio, pcm_samples
from asr.inference.pieces import Piece, pad, piece_of
from asr.inference.recognizer import Recognizer
from asr.inference.spelling import with_digits
from asr.results import Segment, word_record
from asr.search.greedy import greedy
from asr.search.limits import step_limits

__all__ = ["HOP", "Event", "Finalised", "LiveText", "Partial", "pcm_samples"]


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
        self._recognizer = recognizer
        self._audio = LiveAudio(rate, recognizer.decoding.segment_seconds)
        self._shown = ""

    @property
    def duration(self) -> float:
        """Seconds of audio that have been processed."""
        return self._audio.duration

    def push(self, samples: NDArray[np.float32]) -> list[Event]:
        """Add samples (S,), floats in [-1, 1]; return the text that is new or has changed.

        Of many samples, such as those that have waited, only the last partial text is computed.

        Raises:
            UserError: they are not finite, or no floats (S,).
        """
        return [event for _ in self._audio.blocks(samples) for event in self._update()]

    def finish(self) -> list[Event]:
        """Return the rest: the audio has ended. Nothing may be pushed after that."""
        self._audio.end()
        found: list[Event] = [*self._rest()]
        if self._shown and not found:  # what was shown was no speech
            found.append(Partial(self._audio.start / SAMPLE_RATE, ""))
        return found

    def _rest(self) -> Iterator[Finalised]:
        while len(self._audio.samples):
            mask, _ = self._decoded(self._audio.samples, has_text=False)
            yield from self._final(self._audio.cut_last(mask))

    def _update(self) -> Iterator[Event]:
        """Yield the text that has become final, then the partial text after it."""
        is_partial_shown = not self._audio.is_behind
        mask, text = self._decoded(self._audio.samples, is_partial_shown)
        piece = self._audio.cut(mask)
        if piece is not None:
            found = [*self._final(piece)]
            yield from found
            if found:  # the rest may hold words already
                self._shown = ""
                yield from self._update()
                return
            text = ""  # what was shown was no speech
        if text != self._shown and is_partial_shown:
            self._shown = text
            yield Partial(self._audio.start / SAMPLE_RATE, text)

    def _decoded(self, samples: Samples, has_text: bool) -> tuple[Mask, str]:
        """Return the frames with speech, and the text of a greedy search, if it is wanted."""
        loaded = self._recognizer.loaded
        piece = piece_of(samples)
        if piece.is_silent:
            return no_speech(len(samples)), ""
        encoded = loaded.engine.encode(pad([piece]))
        mask = speech_frames(loaded, encoded, len(samples))
        if not has_text:
            return mask, ""
        limits = step_limits(np.array([piece.duration]))
        guard = self._recognizer.decoding.search.guard
        (found,) = greedy(loaded.engine.decoder(encoded.memory), limits, guard)
        return mask, loaded.vocabulary.decode(found.tokens)

    def _final(self, piece: Piece) -> Iterator[Finalised]:
        """Decode a piece that has become final."""
        recognizer = self._recognizer
        (segment,) = decode(recognizer.loaded, [piece], recognizer.decoding)
        if segment.words:
            yield Finalised(self._spelt(segment))

    def _spelt(self, segment: Segment) -> Segment:
        """Add how the words are written, as a text of its own: what follows is not known."""
        punctuator = self._recognizer.loaded.punctuator
        if punctuator is not None:
            words = [word.text for word in segment.words]
            spellings = self._recognizer.loaded.names.written(words, punctuator(words))
            segment = replace(segment, spellings=spellings)
        return next(with_digits([segment])) if self._recognizer.digits else segment
