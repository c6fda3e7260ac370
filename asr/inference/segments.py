"""A hypothesis and its encoded audio → a segment of text with times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from asr.alignment import spans
from asr.alignment.window import region
from asr.inference.confidence import Calibration
from asr.inference.encoding import EncodedPieces
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import Piece
from asr.results import Character, Segment, Span, StopReason
from asr.search.hypothesis import Hypothesis

Timed = TypeVar("Timed", bound=Span)


def silence(piece: Piece) -> Segment:
    """Return the segment of a piece without speech: no text."""
    end = piece.start + piece.duration
    return Segment(piece.start, end, (), (), np.zeros((0, 0), np.float32), 0.0, StopReason.SILENCE)


def segment(
    loaded: LoadedModel,
    piece: Piece,
    encoded: EncodedPieces,
    row: int,
    found: Hypothesis,
    calibration: Calibration | None = None,
) -> Segment:
    """Return the segment of a hypothesis; row: of the piece in the batch."""
    tokens, log_probabilities = found.tokens, found.token_log_probabilities[:-1]
    annotations, columns = int(encoded.lengths[row]), int(encoded.own_lengths[row])
    weights = found.weights[: len(tokens), :annotations]  # (U, T)
    seconds = float(encoded.seconds_per_annotation[row])
    symbols = [loaded.vocabulary.decode([token]) for token in tokens]
    placed = spans.spans(tokens, weights, encoded.ctc_of(row), seconds, piece.duration)
    words = spans.words(symbols, placed, log_probabilities)
    if calibration is not None:
        words = calibration(words, found.score / (len(tokens) + 1))
    characters = [
        Character(symbol, start, end, min(1.0, float(np.exp(log_probability))))
        for symbol, (start, end), log_probability in zip(
            symbols, placed, log_probabilities, strict=True
        )
    ]
    if loaded.boundaries is not None:
        characters, words = loaded.boundaries.refine(
            piece.samples, characters, words, piece.duration
        )
    return Segment(
        start=piece.start,
        end=piece.start + piece.duration,
        words=_shifted(words, piece.start),
        characters=_shifted(characters, piece.start),
        weights=_resampled(weights, columns),
        log_probability=found.log_probability,
        stop_reason=found.stop_reason,
        score=found.score,
        allowed=_allowed(loaded, weights, columns),
    )


def _allowed(
    loaded: LoadedModel, weights: NDArray[np.float32], columns: int
) -> NDArray[np.bool_] | None:
    """Return the region (U, columns) that the attention window allows; None without a window."""
    settings = loaded.settings.attention
    if not settings.has_window:
        return None
    return _resampled(region(weights, settings).astype(np.float32), columns) > 0


def _resampled(weights: NDArray[np.float32], columns: int) -> NDArray[np.float32]:
    """Distribute weights (U, T') of a slowed piece over its (U, T) annotations at full speed."""
    if columns == weights.shape[1]:
        return weights.copy()
    ends = np.linspace(0, columns, weights.shape[1] + 1)  # of the given columns, in the new ones
    sums = np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0)))
    shared = [np.diff(np.interp(np.arange(columns + 1), ends, row)) for row in sums]
    return np.array(shared, np.float32).reshape(len(weights), columns)


def _shifted(timed: Sequence[Timed], seconds: float) -> tuple[Timed, ...]:
    """Return spans within a piece as spans within the recording."""
    return tuple(
        span._replace(start=span.start + seconds, end=span.end + seconds) for span in timed
    )
