"""Utterances for scoring, and the error rates of a model on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from asr.audio.read import read
from asr.corpora.batching import batch_by_length
from asr.corpora.manifest import Utterance
from asr.inference.decoding import decode
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece, whole
from asr.results import Segment
from asr.scoring.words import ErrorCounts, count_characters, count_words

PER_CENT = 100.0


class Spoken(NamedTuple):
    """The transcript of each utterance, and its audio."""

    texts: list[str]
    pieces: list[Piece]


def read_spoken(utterances: Sequence[Utterance]) -> Spoken:
    """Read the audio of utterances; raises UserError if it cannot be read."""
    pieces = [whole(read(each.audio)) for each in utterances]
    return Spoken([each.text for each in utterances], pieces)


def decode_all(
    loaded: LoadedModel, pieces: Sequence[Piece], decoding: DecodingOptions
) -> list[Segment]:
    """Decode each piece with a model, in order."""
    found: dict[int, Segment] = {}
    for batch in batch_by_length([each.duration for each in pieces], decoding.batch_seconds):
        segments = decode(loaded, [pieces[index] for index in batch], decoding)
        found.update(zip(batch, segments, strict=True))
    return [found[index] for index in range(len(pieces))]


def error_rates(texts: Iterable[str], segments: Iterable[Segment]) -> tuple[float, float]:
    """Return CER and WER over all utterances, in per cent."""
    words, characters = ErrorCounts(), ErrorCounts()
    for text, segment in zip(texts, segments, strict=True):
        words += count_words(text, segment.text)
        characters += count_characters(text, segment.text)
    return PER_CENT * characters.rate, PER_CENT * words.rate
