"""A speech model brought to life: pieces of audio in, segments of text with times out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from asr.alignment import times
from asr.alignment.boundaries import Boundaries
from asr.attention.contract import Annotations, Memory
from asr.attention.masks import pool_mask, restrict
from asr.audio.features import HOP_MS, LogMel, Normalizer
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.inference.pieces import Piece, pad, slowed
from asr.lm.lookahead import WordModel
from asr.models.folder import LANGUAGE_MODEL, load_weights, read_folder
from asr.models.initial import mean
from asr.models.seq2seq import SpeechModel, build_speech_model
from asr.models.settings import SpeechSettings
from asr.results import Character, Segment, Span, StopReason
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.beam import beam_search
from asr.search.contract import Scorer
from asr.search.ctc import CTCPrefixScorer, ctc_greedy
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.internal_model import InternalModelScorer
from asr.search.language_model import LanguageModelScorer
from asr.search.limits import step_limits
from asr.search.options import BeamSettings
from asr.tables import from_table
from asr.text.vocabulary import Vocabulary

Timed = TypeVar("Timed", bound=Span)

SLOWEST = 0.7  # to which speech that is too fast is slowed down
SHORTEST_SPEECH = 0.2  # seconds; in less there is no rate of letters to speak of
LEAST_LETTERS = 4.0  # in a second of speech; the slowest readers of LibriSpeech have 5


@dataclass(frozen=True)
class DecodingSettings:
    """How to decode; the defaults are those of `asr transcribe`.

    search: see `BeamSettings`. With size 1 the search is greedy, by the decoder alone.
    ctc_weight: share of CTC in the score, 0 to 1; of no effect where a model has no CTC head.
    lm_weight: factor of the language model's score; of no effect where a model has none.
    lm_bonus: nats for each character beside a language model, to which every word is a cost.
    ilm_weight: factor of the decoder's own language model, taken off beside the other one; see
        `asr.search.internal_model`. Of no effect without a language model.
    fastest: letters in a second of speech; a piece in which CTC reads more is slowed down to about
        as many before it is decoded, to `SLOWEST` of its speed at most. 0 leaves all as it is.
    doubt: nats a token, by the decoder. A text that it doubts more than that and that has fewer
        letters than speech (`LEAST_LETTERS`) was no speech and is left out; −∞ keeps all. Of no
        effect without a language model: who has learnt little doubts all.
    batch_seconds: of padded audio decoded at once. segment_seconds: longest piece of a recording.
    """

    search: BeamSettings = BeamSettings(size=24, recombine=8, width=6.0)
    ctc_weight: float = 0.2
    lm_weight: float = 0.75
    lm_bonus: float = 0.1
    ilm_weight: float = 0.3
    fastest: float = 13.5
    doubt: float = -0.6
    batch_seconds: float = 60.0
    segment_seconds: float = 20.0

    def __post_init__(self) -> None:
        if not 0 <= self.ctc_weight <= 1:
            raise UserError(f"CTC weight {self.ctc_weight}: wanted 0 to 1")
        if not 0 <= self.lm_weight < float("inf"):
            raise UserError(f"language model weight {self.lm_weight}: wanted 0 or more")
        if not 0 <= self.ilm_weight < float("inf"):
            raise UserError(f"internal model's weight {self.ilm_weight}: wanted 0 or more")
        if not self.fastest >= 0:
            raise UserError(f"fastest speech of {self.fastest} letters a second: wanted 0 or more")
        if not self.batch_seconds > 0:
            raise UserError(f"batches of {self.batch_seconds} s: wanted more than 0")


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
    boundaries: Boundaries | None = None

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
        boundaries = Boundaries.load(folder.path, settings.features.mels, vocabulary)
        return cls(model, vocabulary, features, normalizer, settings, words, boundaries)

    @property
    def seconds_per_annotation(self) -> float:
        """Seconds of audio that one annotation stands for."""
        return self.model.encoder.reduction * HOP_MS / 1000

    @torch.inference_mode()
    def decode(self, pieces: Sequence[Piece], decoding: DecodingSettings) -> list[Segment]:
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
        """Read a text that is known along a piece; fastest: see `DecodingSettings`."""
        encoded = self._encode_paced([piece], fastest)
        if len(tokens) > int(encoded.limits[0]):
            raise UserError(
                f"a text of {len(tokens)} characters for {piece.duration:.1f} s of audio: nobody "
                "speaks so fast; is it the text of another recording?"
            )
        weights, log_probabilities = times.teacher_forced_weights(
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

    def _search(self, encoded: _Encoded, decoding: DecodingSettings) -> list[Hypothesis]:
        decoder = TorchDecoder(self.model.decoder, encoded.memory)
        search = decoding.search
        if search.size == 1:
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

    def _words(self, decoding: DecodingSettings) -> WordModel | None:
        """Return the language model that a search asks, if it does."""
        return self.language_model if decoding.search.size > 1 and decoding.lm_weight else None

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
        ctc = None
        if encoded.ctc_log_probs is not None:
            assert self.model.ctc is not None
            ctc = encoded.ctc_log_probs[row, : annotations * self.model.ctc.subframes]
        symbols = [self.vocabulary.decode([token]) for token in tokens]
        placed = times.spans(tokens, weights, ctc, seconds, piece.duration)
        words = times.words(symbols, placed, log_probabilities)
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
            weights=_unslowed(weights, int(encoded.columns[row])),
            log_probability=found.log_probability,
            stop_reason=found.stop_reason,
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
