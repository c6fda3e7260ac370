"""Pieces of recordings for decoding, and batches of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.augment import speed
from asr.audio.read import SAMPLE_RATE, Waveform
from asr.audio.speech import looks_like_steady_noise, speech_mask
from asr.corpora.collate import pad_masks, pad_samples
from asr.runtime.engine import PaddedAudio


class Piece(NamedTuple):
    """A part of a recording that is decoded at once.

    samples: (S,). start: seconds in the recording. speech: (F,) bool, feature frames with speech.
    is_steady_noise: whether the samples are stationary noise, whatever `speech` says. is_cut:
    whether it was cut out of a longer recording or a stream, where short noise may stand between
    speech.
    """

    start: float
    samples: NDArray[np.float32]
    speech: NDArray[np.bool_]
    is_steady_noise: bool = False
    is_cut: bool = False

    @property
    def duration(self) -> float:
        """Seconds."""
        return len(self.samples) / SAMPLE_RATE

    @property
    def is_silent(self) -> bool:
        """Whether it has no speech: silence, or stationary noise."""
        return self.is_steady_noise or not self.speech.any()


def piece_of(samples: NDArray[np.float32], start: float = 0.0) -> Piece:
    """Make a piece of samples (S,) from `start`, in seconds; the speech in it is detected."""
    return Piece(start, samples, speech_mask(samples), looks_like_steady_noise(samples))


def whole(waveform: Waveform) -> Piece:
    """Make one piece of a recording."""
    return piece_of(waveform.samples)


def slowed(piece: Piece, pace: float) -> Piece:
    """Slow a piece down to `pace` times its speed, 0.5 to 1; 1 returns the piece unchanged."""
    if pace == 1:
        return piece
    samples = speed(piece.samples, pace)
    return Piece(piece.start, samples, speech_mask(samples))


def pad(pieces: Sequence[Piece]) -> PaddedAudio:
    """Pad pieces to the same length, with zeros that are not speech."""
    samples = pad_samples([piece.samples for piece in pieces])
    speech = pad_masks([piece.speech for piece in pieces])
    return PaddedAudio(*samples, speech.values)
