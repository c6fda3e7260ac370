"""Where on a page somebody is, while he or she reads it aloud.

Every `HOP` seconds the samples since the last pause are encoded anew, and the search over the page
(`asr.alignment.place`) goes on from its state at that pause. At a pause the state moves on. The
encoder is bidirectional, so the place may change with what is said next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.alignment.page import PageSearch, PageState
from asr.alignment.place import Place, follow, locate, word_scores
from asr.audio.read import SAMPLE_RATE
from asr.inference.cutting import Mask, Samples, no_speech, speech_frames
from asr.inference.live_audio import LiveAudio
from asr.inference.pieces import Piece, pad, piece_of
from asr.inference.reader import require_page_model
from asr.inference.recognizer import LONGEST_READ, Recognizer
from asr.reading import Reading
from asr.text.page import PageWord, sentence_of_each

_MOST_SAMPLES = round(LONGEST_READ * SAMPLE_RATE)


class Position(NamedTuple):
    """The place after `time` seconds; sentence and word: of the page, from 0."""

    time: float
    sentence: int
    word: int

    def record(self, words: list[PageWord]) -> dict[str, Any]:
        """Return the JSON record; words: of the page."""
        return {
            "type": "position",
            "time": round(self.time, 3),
            "sentence": self.sentence,
            "word": self.word,
            "text": words[self.word].text,
            "line": words[self.word].line,
        }


class Follower:
    """Follows a reader through a page; samples arrive one chunk after another.

    words: of the page. sentences: the number of each word's sentence.

    Raises:
        UserError: the page or the rate cannot be used, or the model has no CTC head or does not
            write characters.
    """

    def __init__(self, recognizer: Recognizer, page: str, rate: int = SAMPLE_RATE) -> None:
        require_page_model(recognizer.loaded)
        self.words = recognizer.page_words(page)
        self.sentences = sentence_of_each(self.words)
        self._recognizer = recognizer
        self._page = page
        self._audio = LiveAudio(rate, recognizer.decoding.segment_seconds)
        self._all: list[Samples] = []
        vocabulary = recognizer.loaded.vocabulary
        self._search = PageSearch.of(
            [vocabulary.encode(word.spoken) for word in self.words], vocabulary.encode(" ")[0]
        )
        self._state = self._search.begin()  # at the last cut
        self._place: Place | None = None

    @property
    def is_full(self) -> bool:
        """Whether no more audio can be compared with the page."""
        return self._audio.duration >= LONGEST_READ

    def push(self, samples: NDArray[np.float32]) -> list[Position]:
        """Add samples (S,), floats in [-1, 1]; return the place whenever it changed.

        Raises:
            UserError: they are not finite, or no floats (S,).
        """
        found: list[Position] = []
        for block in self._audio.blocks(samples):
            self._all.append(block)
            found += self._update()
        return found

    def finish(self) -> list[Position]:
        """Return the last place: the audio has ended. Nothing may be pushed after that."""
        self._all.append(self._audio.end())
        return [*self._update()] if len(self._audio.samples) else []

    def samples(self) -> Samples:
        """Return the samples so far (S,), at 16 kHz, at most `LONGEST_READ` seconds."""
        return np.concatenate([np.zeros(0, np.float32), *self._all])[:_MOST_SAMPLES]

    def reading(self) -> Reading:
        """Compare all that was read with the page, as `Recognizer.read` does.

        Raises:
            UserError: there was no speech.
        """
        return self._recognizer.read(self.samples(), self._page, rate=SAMPLE_RATE)

    def _update(self) -> Iterator[Position]:
        """Find the place at the end of the samples; move the state to a pause, if there is one."""
        mask, state = self._decoded(self._audio.samples)
        piece = self._audio.cut(mask)
        if piece is not None and not piece.is_silent:
            _, self._state = self._after(piece)
        found = locate(word_scores(self._search, state), self.sentences, self._place)
        if found is not None and found != self._place:
            self._place = found
            yield Position(self._audio.duration, found.part, found.word)

    def _decoded(self, samples: Samples) -> tuple[Mask, PageState]:
        """Return the frames with speech, and the state of the search after the samples."""
        piece = piece_of(samples)
        if piece.is_silent:
            return no_speech(len(samples)), self._state
        return self._after(piece)

    def _after(self, piece: Piece) -> tuple[Mask, PageState]:
        loaded = self._recognizer.loaded
        encoded = loaded.engine.encode(pad([piece]))
        assert encoded.ctc is not None
        log_probs = encoded.ctc[0, : int(encoded.ctc_lengths[0])]
        mask = speech_frames(loaded, encoded, len(piece.samples))
        return mask, follow(self._search, self._state, log_probs)
