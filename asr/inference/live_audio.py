"""Samples that arrive while somebody speaks, and the pieces that are cut from them at pauses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import soxr
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.inference.cutting import FRAME, Cut, Mask, Samples, cut_at_pause, cut_piece, next_cut
from asr.inference.pieces import Piece

HOP: Final = 0.4  # seconds of audio between two encodings of it
KEPT: Final = 1.0  # seconds kept before speech, whose beginning may be undetected
LOWEST_RATE: Final = 8_000  # Hz
HIGHEST_RATE: Final = 192_000  # Hz

_SIZE: Final = round(FRAME * SAMPLE_RATE)  # samples of a frame


def pcm_samples(content: bytes) -> Samples:
    """Return 16-bit little-endian samples as floats in [-1, 1)."""
    return np.frombuffer(content, "<i2").astype(np.float32) / np.float32(2**15)


def _checked(samples: NDArray[np.float32]) -> Samples:
    """Return samples as float32; see `LiveAudio.blocks`."""
    array = np.asarray(samples)
    if array.ndim != 1 or (array.dtype.kind != "f" and array.size):
        raise UserError(
            f"samples {array.shape} of {array.dtype}: wanted floats (samples,) in [-1, 1]; "
            "`pcm_samples` makes them of 16-bit samples"
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf
        found = array.astype(np.float32, copy=False)
    if not np.isfinite(found).all():
        raise UserError("samples that are not finite: damaged audio")
    return found


class LiveAudio:
    """The samples since the last cut, at 16 kHz.

    They grow by blocks of `HOP` seconds, however the given samples are divided into chunks: what is
    cut does not depend on that division. samples: (S,). start: samples before them.

    Raises:
        UserError: the rate is out of range.
    """

    def __init__(self, rate: int, longest: float) -> None:
        """rate: of the given samples, in Hz. longest: seconds of a piece at most."""
        if not (isinstance(rate, int | float | np.number) and LOWEST_RATE <= rate <= HIGHEST_RATE):
            raise UserError(
                f"a rate of {rate!r} Hz; live audio has {LOWEST_RATE:,} to {HIGHEST_RATE:,}"
            )
        self.samples = np.zeros(0, np.float32)
        self.start = 0
        self._limit = round(longest / FRAME)  # frames
        self._block = round(HOP * rate)  # given samples that are resampled at once
        self._given = np.zeros(0, np.float32)
        self._resampler = None
        if rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, "float32", "HQ")

    @property
    def duration(self) -> float:
        """Seconds of audio that have been processed."""
        return (self.start + len(self.samples)) / SAMPLE_RATE

    @property
    def is_behind(self) -> bool:
        """Whether another block has been given already."""
        return len(self._given) >= self._block

    def blocks(self, samples: NDArray[np.float32]) -> Iterator[Samples]:
        """Take samples (S,) in [-1, 1] at once; yield each block as it is added.

        Raises:
            UserError: they are not finite, or no floats (S,).
        """
        self._given = np.concatenate([self._given, _checked(samples)])
        return self._blocks()

    def _blocks(self) -> Iterator[Samples]:
        while self.is_behind:
            block, self._given = self._given[: self._block], self._given[self._block :]
            yield self._add(block, is_last=False)

    def end(self) -> Samples:
        """Add and return the rest: the audio has ended. Nothing may be given after that."""
        rest, self._given = self._given, np.zeros(0, np.float32)
        return self._add(rest, is_last=True)

    def cut(self, mask: Mask) -> Piece | None:
        """Cut off what is final, or return None; mask: frames of the samples with speech."""
        cut = cut_at_pause(mask, self._limit)
        if cut is None and len(mask) > self._limit:
            cut = next_cut(mask, self._limit, is_last=False)
        if cut is not None and cut.is_silent:
            cut = cut._replace(end=min(cut.end, len(mask) - round(KEPT / FRAME)))
        return self._piece(cut) if cut is not None and cut.end > 0 else None

    def cut_last(self, mask: Mask) -> Piece:
        """Cut off the next piece of audio that has ended."""
        return self._piece(next_cut(mask, self._limit, is_last=True))

    def _add(self, block: Samples, is_last: bool) -> Samples:
        if self._resampler is not None:
            block = self._resampler.resample_chunk(block, last=is_last)
        self.samples = np.concatenate([self.samples, block])
        return block

    def _piece(self, cut: Cut) -> Piece:
        samples = self.samples[: cut.end * _SIZE]
        piece = cut_piece(samples, self.start, cut.is_silent)
        self.samples = self.samples[len(samples) :]
        self.start += len(samples)
        return piece
