"""Pieces of audio → what a search needs; fast speech is slowed down first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.mel import SECONDS_PER_FRAME
from asr.audio.read import SAMPLE_RATE
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import Piece, pad, slowed
from asr.runtime.pace import PaceNetwork
from asr.search.ctc_path import ctc_greedy
from asr.search.trees import put

SLOWEST = 0.7  # lowest factor of the speed to which fast speech is slowed down
SHORTEST_SPEECH = 0.2  # seconds; shorter speech has no meaningful speaking rate


class EncodedPieces(NamedTuple):
    """A batch of B pieces before its search.

    memory: see `asr.runtime.engine.EncodedAudio`. lengths: (B,) annotations. seconds: (B,) of
    audio as encoded, slowed or not. ctc: (B, T', V) log-probabilities or None; ctc_lengths: (B,)
    frames of them. seconds_per_annotation: (B,) of the pieces at their own speed; own_lengths:
    (B,) annotations at that speed; features: of each at that speed, (F, size), normalised.
    """

    memory: Any
    lengths: NDArray[np.int64]
    seconds: NDArray[np.float64]
    ctc: NDArray[np.float32] | None
    ctc_lengths: NDArray[np.int64]
    seconds_per_annotation: NDArray[np.float64]
    own_lengths: NDArray[np.int64]
    features: Sequence[NDArray[np.float32]]


def encode(loaded: LoadedModel, pieces: Sequence[Piece], fastest: float = 0.0) -> EncodedPieces:
    """Encode a batch; speech of more than `fastest` characters per second is slowed down to that.

    The training data has little fast speech, and an 80 ms annotation then covers fewer characters.
    fastest: 0 slows nothing down.
    """
    if fastest and loaded.pace is not None:
        return _encode_once(loaded, loaded.pace, pieces, fastest)
    encoded = _encode(loaded, pieces, [1.0] * len(pieces))
    if not fastest or encoded.ctc is None:
        return encoded
    counts = [len(each) for each in ctc_greedy(encoded.ctc, encoded.ctc_lengths)]
    paces = _paces(counts, pieces, fastest)
    fast = np.flatnonzero(np.array(paces) < 1)
    if not len(fast):
        return encoded
    rows = fast.tolist()
    slow = _encode(loaded, [pieces[row] for row in rows], [paces[row] for row in rows])
    assert slow.ctc is not None
    return encoded._replace(
        memory=loaded.engine.put(encoded.memory, fast, slow.memory),
        lengths=put(encoded.lengths, fast, slow.lengths),
        seconds=put(encoded.seconds, fast, slow.seconds),
        ctc=put(encoded.ctc, fast, slow.ctc),
        ctc_lengths=put(encoded.ctc_lengths, fast, slow.ctc_lengths),
        seconds_per_annotation=encoded.seconds_per_annotation * np.array(paces),
    )


def _encode_once(
    loaded: LoadedModel, network: PaceNetwork, pieces: Sequence[Piece], fastest: float
) -> EncodedPieces:
    """Encode a batch whose speaking rates are found from its features."""
    features = [*loaded.engine.features(pad(pieces))]
    paces = _paces([network.characters(each) for each in features], pieces, fastest)
    encoded = _encode(loaded, pieces, paces, features)
    frames = round(loaded.seconds_per_annotation / SECONDS_PER_FRAME)  # of each annotation
    return encoded._replace(
        seconds_per_annotation=encoded.seconds_per_annotation * np.array(paces),
        own_lengths=np.array([-(-len(each) // frames) for each in features]),
        features=features,
    )


def _encode(
    loaded: LoadedModel,
    pieces: Sequence[Piece],
    paces: Sequence[float],
    features: Sequence[NDArray[np.float32]] | None = None,
) -> EncodedPieces:
    """Encode a batch at the speeds `paces`; features: of each piece at its own speed, if known."""
    changed = [slowed(piece, pace) for piece, pace in zip(pieces, paces, strict=True)]
    audio = pad(changed)
    if features is not None:
        slow = [each for each, pace in zip(changed, paces, strict=True) if pace < 1]
        others = iter(loaded.engine.features(pad(slow)) if slow else ())
        pairs = zip(features, paces, strict=True)
        features = [next(others) if pace < 1 else each for each, pace in pairs]
    encoded = loaded.engine.encode(audio, features)
    return EncodedPieces(
        memory=encoded.memory,
        lengths=encoded.lengths,
        seconds=audio.lengths / SAMPLE_RATE,
        ctc=encoded.ctc,
        ctc_lengths=encoded.ctc_lengths,
        seconds_per_annotation=np.full(len(pieces), loaded.seconds_per_annotation),
        own_lengths=encoded.lengths,
        features=encoded.features,
    )


def _paces(characters: Sequence[float], pieces: Sequence[Piece], fastest: float) -> list[float]:
    """Return the factor of the speed at which each piece has `fastest` characters per second."""
    pairs = zip(characters, pieces, strict=True)
    return [_pace(count, piece, fastest) for count, piece in pairs]


def _pace(characters: float, piece: Piece, fastest: float) -> float:
    """Return the factor of the speed at which a piece has `fastest` characters per second."""
    return min(1.0, max(SLOWEST, fastest * seconds_of_speech(piece) / max(characters, 1)))


def seconds_of_speech(piece: Piece) -> float:
    """Return how long the speech in a piece lasts, at least `SHORTEST_SPEECH`."""
    return max(SHORTEST_SPEECH, float(piece.speech.sum()) * SECONDS_PER_FRAME)
