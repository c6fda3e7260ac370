"""Pieces of audio → annotations and CTC log-probabilities; fast speech is slowed down first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.mel import SECONDS_PER_FRAME
from asr.audio.read import SAMPLE_RATE
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import Piece, pad, slowed
from asr.search.ctc_path import ctc_greedy
from asr.search.trees import put

SLOWEST = 0.7  # lowest factor of the speed to which fast speech is slowed down
SHORTEST_SPEECH = 0.2  # seconds; shorter speech has no meaningful speaking rate


class EncodedPieces(NamedTuple):
    """A batch of B pieces before its search.

    memory: see `asr.runtime.engine.EncodedAudio`. lengths: (B,) annotations. seconds: (B,) of
    audio as encoded, slowed or not. ctc: (B, T', V) log-probabilities or None; ctc_lengths: (B,)
    frames of them. seconds_per_annotation: (B,) of the pieces at their own speed; own_lengths:
    (B,) annotations at that speed.
    """

    memory: Any
    lengths: NDArray[np.int64]
    seconds: NDArray[np.float64]
    ctc: NDArray[np.float32] | None
    ctc_lengths: NDArray[np.int64]
    seconds_per_annotation: NDArray[np.float64]
    own_lengths: NDArray[np.int64]

    def ctc_of(self, row: int) -> NDArray[np.float32] | None:
        """Return the CTC log-probabilities (T', V) of one piece; None without a CTC head."""
        return None if self.ctc is None else self.ctc[row, : self.ctc_lengths[row]]


def encode(loaded: LoadedModel, pieces: Sequence[Piece], fastest: float = 0.0) -> EncodedPieces:
    """Encode a batch; speech of more than `fastest` characters per second is slowed down to that.

    The training data has little fast speech, and an 80 ms annotation then covers fewer characters.
    fastest: 0 slows nothing down.
    """
    encoded = _encode(loaded, pieces, [1.0] * len(pieces))
    if not fastest or encoded.ctc is None:
        return encoded
    characters = ctc_greedy(encoded.ctc, encoded.ctc_lengths)
    paces = [
        _pace(len(each), piece, fastest) for each, piece in zip(characters, pieces, strict=True)
    ]
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


def _encode(loaded: LoadedModel, pieces: Sequence[Piece], paces: Sequence[float]) -> EncodedPieces:
    audio = pad([slowed(piece, pace) for piece, pace in zip(pieces, paces, strict=True)])
    encoded = loaded.engine.encode(audio)
    return EncodedPieces(
        memory=encoded.memory,
        lengths=encoded.lengths,
        seconds=audio.lengths / SAMPLE_RATE,
        ctc=encoded.ctc,
        ctc_lengths=encoded.ctc_lengths,
        seconds_per_annotation=np.full(len(pieces), loaded.seconds_per_annotation),
        own_lengths=encoded.lengths,
    )


def _pace(characters: int, piece: Piece, fastest: float) -> float:
    """Return the factor of the speed at which a piece has `fastest` characters per second."""
    return min(1.0, max(SLOWEST, fastest * seconds_of_speech(piece) / max(characters, 1)))


def seconds_of_speech(piece: Piece) -> float:
    """Return how long the speech in a piece lasts, at least `SHORTEST_SPEECH`."""
    return max(SHORTEST_SPEECH, float(piece.speech.sum()) * SECONDS_PER_FRAME)
