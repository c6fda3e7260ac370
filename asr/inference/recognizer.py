"""Audio → Transcript: a model folder, long audio, batches, silence, times."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from asr.audio.read import Source, check_rate
from asr.audio.speech import has_speech
from asr.errors import UserError
from asr.inference.cutting import pieces_for
from asr.inference.decoding import force
from asr.inference.journal import Journal
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece, whole
from asr.inference.sources import (
    Failure,
    Finished,
    Progress,
    name_of,
    path_of,
    read_whole,
    require_several,
)
from asr.inference.spelling import punctuated, with_digits
from asr.inference.stream import pieces_of, segments_of_each
from asr.model_folder import PRETRAINED
from asr.results import Segment, Transcript
from asr.tables import from_table, to_table
from asr.text.normalize import normalize
from asr.text.page import PageWord, page_words
from asr.text.vocabulary import UNK

if TYPE_CHECKING:
    from asr.reading import Reading

SHIPPED = PRETRAINED / "english"
LONGEST_ALIGNED = 120.0  # seconds that are aligned with a given text, which is not cut
LONGEST_READ = 300.0  # seconds that are compared with a page; memory grows with both
LONGEST_PAGE = 2000  # words


@dataclass(frozen=True, eq=False)
class Recognizer:
    """A speech model and the way to decode with it.

    `load` makes one; `configured` makes one that decodes otherwise, with the same weights.
    """

    loaded: LoadedModel = field(repr=False)
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    digits: bool = False  # whether numbers are written in digits

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        runtime: str = "auto",
    ) -> Recognizer:
        """Load a model folder, or a model of the package by its name; None takes "english".

        device: cpu, cuda, cuda:N, or auto (a GPU if there is one). runtime: numpy, torch, onnx (a
            model made by `asr export`), or auto; see `LoadedModel.load`. Results are equal up to
            rounding, but for a model whose graphs compute in 8 bits.

        Raises:
            UserError: there is no such folder, it holds no speech model, the device is missing, or
                the runtime does not support the model.
        """
        if path is None and not SHIPPED.is_dir():
            raise UserError(
                "no model given, and none is in this copy: train one, or name its folder"
            )
        loaded = LoadedModel.load(SHIPPED if path is None else Path(path), device, runtime)
        return cls(loaded, loaded.decoding)

    def configured(
        self,
        *,
        language_model: str | os.PathLike[str] | None = None,
        window: tuple[float, float] | None = None,
        hotwords: Iterable[str] | None = None,
        **options: float | None,
    ) -> Recognizer:
        """Return a recogniser with other options and the same weights; None keeps an option.

        options: fields of `DecodingOptions`, such as beam=1.
        language_model: a file of word n-grams in place of the model's own.
        window: restricts the attention to (seconds back, seconds ahead) around its last position,
            whatever it was trained with; (0, 0) removes a window.
        hotwords: words or phrases that the search favours, such as names; the language model need
            not know them. Capitals are kept in the written text. An empty list favours none.

        Raises:
            UserError: an unknown option, a value of the wrong type or out of range, a CTC weight
                for a model without a CTC head, a language model that cannot be read, an attention
                that takes no window, hot words that cannot be spelt, or hot words or alternatives
                with a beam of 1.
        """
        changes = {name: value for name, value in options.items() if value is not None}
        if changes.get("ctc_weight") and not self.loaded.engine.has_ctc:
            weight = changes["ctc_weight"]
            raise UserError(f"CTC weight {weight}: this model has no CTC head, leave it out")
        loaded = self.loaded
        if language_model is not None:
            loaded = loaded.with_language_model(Path(language_model))
            _ = loaded.language_model  # a file that cannot be read is reported now
        if window is not None:
            loaded = loaded.windowed(*_both_sides(window))
        if hotwords is not None:
            loaded = loaded.favouring(hotwords)
        decoding = from_table(DecodingOptions, to_table(self.decoding) | changes)
        if decoding.beam == 1 and loaded.hotwords is not None:
            raise UserError("hot words need a beam search; got a beam of 1")
        if decoding.beam == 1 and decoding.n_best > 1:
            raise UserError("alternatives need a beam search; got a beam of 1")
        return replace(self, loaded=loaded, decoding=decoding)

    def plain(self) -> Recognizer:
        """Return a recogniser that writes bare words alone, with the same weights."""
        return replace(self, loaded=replace(self.loaded, writer=None), digits=False)

    def with_digits(self) -> Recognizer:
        """Return a recogniser that writes numbers of 10 and above in digits."""
        return replace(self, digits=True)

    def caching(self, seconds: float) -> Recognizer:
        """Return a recogniser that keeps the encoder's output of the last `seconds` of audio.

        The same recording is then searched, aligned or compared with a page without encoding it. It
        is found by the content of its batch: a recording of several pieces, or in a list, must be
        cut and batched as before. Results are the same. 0: nothing is kept.

        Raises:
            UserError: a number below 0.
        """
        return replace(self, loaded=self.loaded.caching(seconds))

    @overload
    def transcribe(
        self,
        source: list[Any],
        *,
        rate: int | None = ...,
        beam: int | None = ...,
        ctc_weight: float | None = ...,
        lm_weight: float | None = ...,
        on_progress: Progress | None = ...,
    ) -> list[Transcript]: ...

    @overload
    def transcribe(
        self,
        source: Source,
        *,
        rate: int | None = ...,
        beam: int | None = ...,
        ctc_weight: float | None = ...,
        lm_weight: float | None = ...,
        on_progress: Progress | None = ...,
    ) -> Transcript: ...

    def transcribe(
        self,
        source: Source | list[Any],
        *,
        rate: int | None = None,
        beam: int | None = None,
        ctc_weight: float | None = None,
        lm_weight: float | None = None,
        on_progress: Progress | None = None,
    ) -> Transcript | list[Transcript]:
        """Transcribe one recording, or a list of them into a list in the same order.

        source: a path, the bytes of a file, a binary stream, samples (S,) or (S, channels), or
            what `asr.audio.read.read` made of any of these.
        rate: of samples, in Hz; the files of a list do without.
        beam, ctc_weight, lm_weight: see `DecodingOptions`.

        Raises:
            UserError: a recording cannot be read or is too short; a value is out of range.
        """
        recognizer = self.configured(beam=beam, ctc_weight=ctc_weight, lm_weight=lm_weight)
        if isinstance(source, list):
            each = recognizer.transcribe_each(source, rate=rate, on_progress=on_progress)
            return [_unless_failed(result) for result in each]
        check_rate(source, rate)
        (result,) = recognizer.transcribe_each([source], rate=rate, on_progress=on_progress)
        return _unless_failed(result)

    def transcribe_each(
        self,
        sources: Iterable[Source],
        *,
        rate: int | None = None,
        on_progress: Progress | None = None,
    ) -> Iterator[Transcript | Failure]:
        """Yield a transcript or a failure for each recording, in their order.

        Recordings are read as they are needed, some minutes of audio ahead.
        """
        yield from self.joined(self.segments_of_each(sources, rate=rate, on_progress=on_progress))

    def joined(
        self, results: Iterable[Segment | Finished | Failure]
    ) -> Iterator[Transcript | Failure]:
        """Yield a transcript or a failure for each recording of `segments_of_each`."""
        segments: list[Segment] = []
        for found in results:
            if isinstance(found, Segment):
                segments.append(found)
                continue
            if isinstance(found, Failure):
                yield found
            else:
                yield self.transcript(found.path, segments)
            segments = []

    def transcript(self, path: str | None, segments: Sequence[Segment]) -> Transcript:
        """Return the transcript of a recording.

        path: None if it did not come from a file. segments: all of them, in order, at least one.
        """
        seconds = self.loaded.seconds_per_annotation
        return Transcript(path, segments[-1].end, seconds, tuple(segments))

    def segments_of_each(
        self,
        sources: Iterable[Source],
        *,
        rate: int | None = None,
        on_progress: Progress | None = None,
        journal: Journal | None = None,
    ) -> Iterator[Segment | Finished | Failure]:
        """Yield the segments of each recording in order, then that it is finished or failed.

        Some minutes of audio are held in memory, whatever the length of the recordings.
        journal: keeps the segments, and has those of the same call that was interrupted; these come
            without attention weights.

        Raises:
            UserError: the sources are a single recording.
        """
        require_several(sources)
        results = segments_of_each(self.loaded, self.decoding, sources, rate, on_progress, journal)
        if self.loaded.punctuator is not None:
            results = punctuated(results, self.loaded.punctuator, self.loaded.names)
        return with_digits(results) if self.digits else results

    def pieces(self, source: Source, *, rate: int | None = None) -> Iterator[Piece]:
        """Yield the pieces of a recording for `decode`, as they are read.

        Raises:
            UserError: the recording cannot be read or is too short.
        """
        return pieces_of(self.loaded, self.decoding, source, rate)

    def align(
        self, source: Source, text: str | None = None, *, rate: int | None = None
    ) -> Transcript:
        """Return `text` as a transcript with times; without a text, do as `transcribe`.

        The text is normalised as transcripts are and read by the decoder as it stands (teacher
        forcing): its words need not be those that the model would have written.

        Raises:
            UserError: as in `transcribe`; or the text holds nothing that the model can write, is
                too long for the audio, or the audio is silent or above `LONGEST_ALIGNED`.
        """
        if text is None:
            return self.transcribe(source, rate=rate)
        _require_length(_text(text))
        tokens = self._tokens(text)
        waveform = read_whole(source, rate)
        if waveform.duration > LONGEST_ALIGNED:
            raise UserError(
                f"{name_of(source)}: {waveform.duration:.0f} s; a text is aligned with at most "
                f"{LONGEST_ALIGNED:.0f} s: cut both, or give no text"
            )
        piece = whole(waveform)
        if not has_speech(piece.speech):
            raise UserError(f"{name_of(source)}: no speech in it to align a text with")
        segment = force(self.loaded, piece, tokens, self.decoding.fastest)
        return self.transcript(path_of(source), [segment])

    def read(self, source: Source, page: str, *, rate: int | None = None) -> Reading:
        """Compare a recording with the text that was read aloud, word by word.

        page: the text as printed; its lines are kept. Words are normalised with those near them.

        Raises:
            UserError: as in `align`; the page holds more than `LONGEST_PAGE` words, the audio is
                above `LONGEST_READ`, or the model has no CTC head or does not write characters.
        """
        from asr.inference import reader  # not for those who only transcribe: 10 ms

        words = self.page_words(page)
        waveform = read_whole(source, rate)
        if waveform.duration > LONGEST_READ:
            raise UserError(
                f"{name_of(source)}: {waveform.duration:.0f} s; at most {LONGEST_READ:.0f} s are "
                "compared with a page: cut both"
            )
        found = [*pieces_for(self.loaded, [waveform.samples], self.decoding.segment_seconds)]
        if not any(has_speech(piece.speech) for piece in found):
            raise UserError(f"{name_of(source)}: no speech in it to compare with a page")
        reading = reader.read(self.loaded, found, words, self.decoding)
        return replace(reading, path=path_of(source))

    def page_words(self, page: str) -> list[PageWord]:
        """Return the words of a page that is read aloud.

        Raises:
            UserError: the page holds nothing that the model can write, or more than `LONGEST_PAGE`
                words.
        """
        _require_length(_text(page))
        words = page_words(page.splitlines())
        _ = self._tokens(" ".join(word.spoken for word in words) or page)
        return words

    def _tokens(self, text: str) -> list[int]:
        """Ids of a text as the model would write it."""
        normalised = normalize(_text(text))
        if not normalised:
            raise UserError(f"nothing is left of the text {text[:40]!r} as lower-case a to z")
        tokens = self.loaded.vocabulary.encode(normalised)
        if UNK in tokens:
            strange = sorted(
                {each for each in normalised if UNK in self.loaded.vocabulary.encode(each)}
            )
            raise UserError(f"the model cannot write {', '.join(map(repr, strange))} of the text")
        return tokens


def load(
    path: str | os.PathLike[str] | None = None, *, device: str = "cpu", runtime: str = "auto"
) -> Recognizer:
    """Load a model folder, or the English model of the package; see `Recognizer.load`."""
    return Recognizer.load(path, device, runtime)


def _require_length(page: str) -> None:
    """Check the length of a text before its numbers are spelt, which takes longer."""
    count = len(page.split())
    if count > LONGEST_PAGE:
        raise UserError(f"a page of {count} words, wanted at most {LONGEST_PAGE}: cut it")


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise UserError(f"a text of type {type(given).__name__}: wanted a str")
    return given


def _both_sides(window: object) -> tuple[float, float]:
    """Check the type of a window, and that it is finite."""
    match window:
        case (int() | float() as back, int() | float() as ahead) if isfinite(back + ahead):
            return back, ahead
    raise UserError(f"window {window!r:.40}: wanted (seconds back, seconds ahead)")


def _unless_failed(result: Transcript | Failure) -> Transcript:
    if isinstance(result, Failure):
        raise result.error
    return result
