"""A speech model brought to life: pieces of audio in, segments of text with times out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from asr.alignment import spans
from asr.attention.contract import Annotations, Memory
from asr.attention.masks import pool_mask, restrict
from asr.audio.features import HOP_MS, LogMel, Normalizer
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece, pad, slowed
from asr.lm.lookahead import WordModel
from asr.models.folder import LANGUAGE_MODEL, load_weights, read_folder
from asr.models.initial import mean
from asr.models.seq2seq import SpeechModel, build_speech_model, build_window
from asr.models.settings import SpeechSettings
from asr.results import Character, Segment, Span, StopReason
from asr.runtime.boundary import BoundaryRefiner
from asr.runtime.teacher_forcing import teacher_forced_weights
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.beam import beam_search
from asr.search.contract import Scorer
from asr.search.ctc import CTCPrefixScorer, ctc_greedy
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.internal_model import InternalModelScorer
from asr.search.language_model import LanguageModelScorer
from asr.search.limits import step_limits
from asr.tables import from_table
from asr.text.vocabulary import Vocabulary

Timed = TypeVar("Timed", bound=Span)

SLOWEST = 0.7  # to which speech that is too fast is slowed down
SHORTEST_SPEECH = 0.2  # seconds; in less there is no rate of letters to speak of
LEAST_LETTERS = 4.0  # in a second of speech; the slowest readers of LibriSpeech have 5


class _Encoded(NamedTuple):
    """A batch before its search.

    annotations: (B,), how many each utterance has. paces: of each, see `slowed`. columns: (B,), how
    many it would have at its own pace. features: of each at its own pace, (F, mels), normalised.
    """

    memory: Memory
    annotations: Tensor
    limits: NDArray[np.int64]  # (B,) characters
    ctc_log_probs: Tensor | None  # (B, T·subframes, V)
    paces: Sequence[float]
    columns: Tensor
    features: Sequence[Tensor]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A speech model with its vocabulary, features and their normalisation; float32, on the CPU.

    What it says of a piece does not depend on the other pieces of a batch.

    language_model_file: word n-grams (`asr.lm.word_ngrams`), or None.
    boundaries: what makes word times exact, or None.
    """

    model: SpeechModel
    vocabulary: Vocabulary
    features: LogMel
    normalizer: Normalizer
    settings: SpeechSettings
    language_model_file: Path | None = None
    boundaries: BoundaryRefiner | None = None

    @cached_property
    def language_model(self) -> WordModel | None:
        """The language model, read when it is first asked for.

        Raises:
            UserError: the file cannot be read, or the model does not write with letters.
        """
        if self.language_model_file is None:
            return None
        return WordModel.load(self.language_model_file, self.vocabulary)

    @classmethod
    def load(cls, path: Path) -> LoadedModel:
        """Load a model folder.

        Raises:
            UserError: there is no such folder, or it holds no speech model.
        """
        folder = read_folder(path, "speech")
        if "vocabulary" not in folder.vocabularies:
            raise UserError(f"{folder.path}: a speech model that lacks its vocabulary.json")
        settings = from_table(SpeechSettings, folder.model)
        vocabulary = Vocabulary.from_json(folder.vocabularies["vocabulary"])
        try:
            model = build_speech_model(settings, len(vocabulary)).eval().requires_grad_(False)
        except (ValueError, RuntimeError) as error:
            raise UserError(f"{folder.path}: no model can have these sizes: {error}") from error
        normalizer = Normalizer(settings.features.mels, settings.features.utterance_mean)
        stored = {**dict(model.named_children()), "normalizer": normalizer}
        load_weights(nn.ModuleDict(stored), folder.path)
        features = LogMel(mels=settings.features.mels)
        file = folder.path / LANGUAGE_MODEL
        words = file if file.is_file() else None
        boundaries = BoundaryRefiner.load(folder.path, settings.features.mels, vocabulary)
        return cls(model, vocabulary, features, normalizer, settings, words, boundaries)

    @property
    def seconds_per_annotation(self) -> float:
        """Seconds of audio that one annotation stands for."""
        return self.model.encoder.reduction * HOP_MS / 1000

    def windowed(self, back: float, ahead: float) -> LoadedModel:
        """Return a model whose attention is restricted to a window around its last position.

        back, ahead: seconds before and after the median of the previous step's weights, rounded
            up to whole annotations; both 0 remove a window. The weights are shared.

        Raises:
            UserError: a window of one side alone, or an attention that takes none.
        """
        settings = self.settings.attention
        reach = [ceil(each / self.seconds_per_annotation) for each in (back, ahead)]
        settings = replace(settings, window_back=reach[0], window_ahead=reach[1], window_stride=0)
        try:
            model = self.model.windowed(build_window(settings))
        except ValueError as error:
            raise UserError(f"window of {back:g} s back and {ahead:g} s ahead: {error}") from error
        return replace(self, model=model, settings=replace(self.settings, attention=settings))

    @torch.inference_mode()
    def decode(self, pieces: Sequence[Piece], decoding: DecodingOptions) -> list[Segment]:
        """Decode a batch; a piece in which nobody speaks is not shown to the model."""
        found = [_silence(piece) for piece in pieces]
        spoken = [index for index, piece in enumerate(pieces) if not piece.is_silent]
        if not spoken:
            return found
        encoded = self._encode_paced([pieces[index] for index in spoken], decoding.fastest)
        hypotheses = self._search(encoded, decoding)
        doubt = decoding.doubt if self._words(decoding) is not None else -np.inf
        for row, (index, hypothesis) in enumerate(zip(spoken, hypotheses, strict=True)):
            if not _is_noise(pieces[index], hypothesis, doubt):
                found[index] = self._segment(pieces[index], encoded, row, hypothesis)
        return found

    @torch.inference_mode()
    def force(self, piece: Piece, tokens: list[int], fastest: float = 0.0) -> Segment:
        """Read a text that is known along a piece; fastest: see `DecodingOptions`."""
        encoded = self._encode_paced([piece], fastest)
        if len(tokens) > int(encoded.limits[0]):
            raise UserError(
                f"a text of {len(tokens)} characters for {piece.duration:.1f} s of audio: nobody "
                "speaks so fast; is it the text of another recording?"
            )
        weights, log_probabilities = teacher_forced_weights(
            self.model.decoder, encoded.memory, tokens
        )
        summands = log_probabilities.tolist()
        hypothesis = Hypothesis(
            tokens, sum(summands), weights.float().cpu().numpy(), StopReason.EOS, summands
        )
        return self._segment(piece, encoded, 0, hypothesis)

    def _encode_paced(self, pieces: Sequence[Piece], fastest: float) -> _Encoded:
        """Encode a batch, each piece slowed down where it is spoken faster than that.

        A model that has heard little fast speech hears slowed speech better, and its 80 ms
        annotations have fewer letters each to hold.
        """
        encoded = self._encode(pieces)
        if not fastest or encoded.ctc_log_probs is None or self.model.ctc is None:
            return encoded
        frames = encoded.annotations * self.model.ctc.subframes
        letters = ctc_greedy(encoded.ctc_log_probs.numpy(), frames.numpy())
        paces = [
            _pace(len(each), piece, fastest) for each, piece in zip(letters, pieces, strict=True)
        ]
        if min(paces) == 1:
            return encoded
        slow = self._encode(pieces, paces)
        return slow._replace(columns=encoded.annotations, features=encoded.features)

    def _encode(self, pieces: Sequence[Piece], paces: Sequence[float] | None = None) -> _Encoded:
        paces = paces or [1.0] * len(pieces)
        batch = pad([slowed(piece, pace) for piece, pace in zip(pieces, paces, strict=True)])
        features, frames = self.features(batch.samples, batch.lengths)
        features = self.normalizer(features, frames)
        annotations = self.model.encoder(features, frames)
        ctc = None if self.model.ctc is None else self.model.ctc.log_probs(annotations)
        allowed = annotations
        if self.settings.attention.silence_mask:
            allowed = restrict(annotations, pool_mask(batch.speech, self.model.encoder.reduction))
        lengths = annotations.mask.sum(1)
        return _Encoded(
            memory=self.model.decoder.prepare(allowed),
            annotations=lengths,
            limits=step_limits((batch.lengths / SAMPLE_RATE).numpy()),
            ctc_log_probs=ctc,
            paces=paces,
            columns=lengths,
            features=[each[:count] for each, count in zip(features, frames.tolist(), strict=True)],
        )

    def _search(self, encoded: _Encoded, decoding: DecodingOptions) -> list[Hypothesis]:
        decoder = TorchDecoder(self.model.decoder, encoded.memory)
        search = decoding.search
        if decoding.beam == 1:
            return greedy(decoder, encoded.limits, search.guard)
        scorers: list[Scorer] = []
        if encoded.ctc_log_probs is not None and decoding.ctc_weight:
            assert self.model.ctc is not None
            frames = encoded.annotations * self.model.ctc.subframes
            log_probs = encoded.ctc_log_probs.numpy()
            scorers.append(CTCPrefixScorer(log_probs, frames.numpy(), decoding.ctc_weight))
        words = self._words(decoding)
        if words is not None:
            scorers.append(LanguageModelScorer(words, decoding.lm_weight))
            if decoding.ilm_weight:
                without_audio = TorchDecoder(self.model.decoder, self._unheard(encoded.memory))
                scorers.append(InternalModelScorer(without_audio, decoding.ilm_weight))
            search = replace(search, length_bonus=decoding.lm_bonus)
        return [best for best, *_ in beam_search(decoder, encoded.limits, search, scorers)]

    def _words(self, decoding: DecodingOptions) -> WordModel | None:
        """Return the language model that a search asks, if it does."""
        return self.language_model if decoding.beam > 1 and decoding.lm_weight else None

    def _unheard(self, memory: Memory) -> Memory:
        """Return a memory in which no word can be heard: the mean annotation, once."""
        values = mean(memory)[:, None]  # (B, 1, E)
        mask = torch.ones(values.shape[:2], dtype=torch.bool)
        return self.model.decoder.prepare(Annotations(values, mask))

    def _segment(self, piece: Piece, encoded: _Encoded, row: int, found: Hypothesis) -> Segment:
        """Give the characters of a hypothesis their times."""
        tokens, log_probabilities = found.tokens, found.token_log_probabilities[:-1]
        annotations = int(encoded.annotations[row])
        seconds = self.seconds_per_annotation * encoded.paces[row]  # of the piece as it was
        weights = found.weights[: len(tokens), :annotations]  # (U, T)
        columns = int(encoded.columns[row])
        window, allowed = build_window(self.settings.attention), None
        if window is not None:
            region = window.region(torch.from_numpy(weights)).float().numpy()
            allowed = _unslowed(region, columns) > 0
        ctc = None
        if encoded.ctc_log_probs is not None:
            assert self.model.ctc is not None
            ctc = encoded.ctc_log_probs[row, : annotations * self.model.ctc.subframes].numpy()
        symbols = [self.vocabulary.decode([token]) for token in tokens]
        placed = spans.spans(tokens, weights, ctc, seconds, piece.duration)
        words = spans.words(symbols, placed, log_probabilities)
        characters = [
            Character(symbol, start, end, min(1.0, float(np.exp(log_probability))))
            for symbol, (start, end), log_probability in zip(
                symbols, placed, log_probabilities, strict=True
            )
        ]
        if self.boundaries is not None:
            features = encoded.features[row]
            characters, words = self.boundaries.refine(features, characters, words, piece.duration)
        return Segment(
            start=piece.start,
            end=piece.start + piece.duration,
            words=_shifted(words, piece.start),
            characters=_shifted(characters, piece.start),
            weights=_unslowed(weights, columns),
            log_probability=found.log_probability,
            stop_reason=found.stop_reason,
            allowed=allowed,
        )


def _pace(letters: int, piece: Piece, fastest: float) -> float:
    """Return the pace at which a piece has about `fastest` letters in a second of speech."""
    return min(1.0, max(SLOWEST, fastest * _seconds_of_speech(piece) / max(letters, 1)))


def _is_noise(piece: Piece, found: Hypothesis, doubt: float) -> bool:
    """Return whether a text is slower than speech, and the decoder does not believe in it."""
    slow = len(found.tokens) < LEAST_LETTERS * _seconds_of_speech(piece)
    return slow and found.log_probability < doubt * (len(found.tokens) + 1)


def _seconds_of_speech(piece: Piece) -> float:
    return max(SHORTEST_SPEECH, float(piece.speech.sum()) * HOP_MS / 1000)


def _unslowed(weights: NDArray[np.float32], columns: int) -> NDArray[np.float32]:
    """Share weights (U, T') of a slowed piece out to the (U, T) annotations at its own pace."""
    if columns == weights.shape[1]:
        return weights.copy()
    ends = np.linspace(0, columns, weights.shape[1] + 1)  # of those given, in those wanted
    sums = np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0)))
    shared = [np.diff(np.interp(np.arange(columns + 1), ends, row)) for row in sums]
    return np.array(shared, np.float32).reshape(len(weights), columns)


def _silence(piece: Piece) -> Segment:
    end = piece.start + piece.duration
    return Segment(piece.start, end, (), (), np.zeros((0, 0), np.float32), 0.0, StopReason.SILENCE)


def _shifted(spans: Sequence[Timed], seconds: float) -> tuple[Timed, ...]:
    """Spans within a piece as spans within the recording."""
    return tuple(
        span._replace(start=span.start + seconds, end=span.end + seconds) for span in spans
    )
