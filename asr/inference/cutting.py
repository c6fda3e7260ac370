"""Recordings of any length → pieces, cut in pauses.

A first pass marks the frames with speech, in windows: by the voice activity model of the model's
folder, or by the model's own CTC head, which costs as much as encoding the recording once more. Its
memory does not depend on the length of the recording. Speech without a pause is cut between two
symbols, which only the CTC head tells apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.mel import SECONDS_PER_FRAME
from asr.audio.read import SAMPLE_RATE
from asr.audio.speech import above_background
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import Piece, pad, piece_of
from asr.runtime.engine import EncodedAudio
from asr.text.vocabulary import BLANK

FRAME: Final = 0.04  # seconds for which it is decided whether there is speech
SPEECH: Final = 0.2  # least probability of any symbol but the blank in a frame with speech
MARGIN: Final = 0.2  # seconds kept around speech: symbols are narrower than their sounds
PAUSE: Final = 0.6  # seconds without speech that end a piece
GAP: Final = 1.5  # seconds without speech that form a piece, or end one that is short
SHORT: Final = 3.0  # seconds; shorter speech is only ended by a gap: words need context

_SIZE: Final = round(FRAME * SAMPLE_RATE)  # samples of a frame
_CONTEXT: Final = round(1.0 / FRAME) * _SIZE  # samples around a window of the first pass
_CORE: Final = round(18.0 / FRAME) * _SIZE  # samples of such a window; in training 18 s at most

Samples = NDArray[np.float32]
Mask = NDArray[np.bool_]
Detector = Callable[[Samples], Mask]  # samples (S,) → frames with speech (⌈S / 640⌉,)


class Cut(NamedTuple):
    """The end of a piece in frames, and whether it is without speech."""

    end: int
    is_silent: bool


def pieces_for(loaded: LoadedModel, blocks: Iterable[Samples], longest: float) -> Iterator[Piece]:
    """Cut a recording for a model; see `pieces`."""
    return pieces(blocks, detector(loaded), longest, symbol_detector(loaded))


def detector(loaded: LoadedModel) -> Detector:
    """Return a detector by the voice activity model of a model, or `symbol_detector`."""
    find = loaded.voice_activity
    if find is None:
        return symbol_detector(loaded)
    return lambda samples: no_speech(len(samples)) if piece_of(samples).is_silent else find(samples)


def symbol_detector(loaded: LoadedModel) -> Detector:
    """Return a detector by the CTC head of a model, or by energy for a model without one."""

    def detect(samples: Samples) -> Mask:
        if not loaded.engine.has_ctc:
            return by_energy(samples)
        piece = piece_of(samples)
        if piece.is_silent:  # need not be encoded
            return no_speech(len(samples))
        return speech_frames(loaded, loaded.engine.encode(pad([piece])), len(samples))

    return detect


def no_speech(samples: int) -> Mask:
    """Return the mask (⌈samples / 640⌉,) of audio without speech."""
    return np.zeros(-(-samples // _SIZE), bool)


def speech_frames(loaded: LoadedModel, encoded: EncodedAudio, samples: int) -> Mask:
    """Return the frames with speech (⌈samples / 640⌉,) of the first recording of a batch.

    encoded: by a model with a CTC head.
    """
    assert encoded.ctc is not None
    symbols = 1 - np.exp(encoded.ctc[0, : int(encoded.ctc_lengths[0]), BLANK])
    seconds = loaded.seconds_per_annotation * encoded.lengths[0] / encoded.ctc_lengths[0]
    return in_frames(symbols > SPEECH, float(seconds), samples)


def by_energy(samples: Samples) -> Mask:
    """Return the frames (⌈samples / 640⌉,) that are louder than the background."""
    return in_frames(above_background(samples), SECONDS_PER_FRAME, len(samples))


def in_frames(mask: Mask, seconds: float, samples: int) -> Mask:
    """Return the frames (⌈samples / 640⌉,) with speech; mask: one value for `seconds` each."""
    found = no_speech(samples)
    places = ((np.flatnonzero(mask) + 0.5) * seconds / FRAME).astype(int)
    found[places[places < len(found)]] = True
    return found


def pieces(
    blocks: Iterable[Samples], detect: Detector, longest: float, symbols: Detector | None = None
) -> Iterator[Piece]:
    """Cut a recording into pieces of at most `longest` seconds, as its blocks come.

    symbols: tells symbols apart, in `longest` seconds without a pause; None: `detect` does.

    The pieces are contiguous. A recording that is no longer than `longest` is one piece. Others
    are cut in pauses; gaps without speech form pieces of their own, with an empty mask.
    """
    limit = round(longest / FRAME)
    held, source = _at_least(iter(blocks), round(longest * SAMPLE_RATE) + 1)
    if len(held) <= longest * SAMPLE_RATE:
        if len(held):
            yield piece_of(held)
        return
    samples, mask, start = np.zeros(0, np.float32), np.zeros(0, bool), 0

    def apart() -> Mask:
        return mask if symbols is None else symbols(samples[: limit * _SIZE])

    for window, found in _detected(_chain(held, source), detect):
        samples, mask = np.concatenate([samples, window]), np.concatenate([mask, found])
        while len(mask) > limit + round(GAP / FRAME):
            cut = next_cut(mask, limit, is_last=False, apart=apart)
            yield cut_piece(samples[: cut.end * _SIZE], start, cut.is_silent)
            samples, mask = samples[cut.end * _SIZE :], mask[cut.end :]
            start += cut.end * _SIZE
    while len(mask):
        cut = next_cut(mask, limit, is_last=True, apart=apart)
        end = len(samples) if cut.end == len(mask) else cut.end * _SIZE
        yield cut_piece(samples[:end], start, cut.is_silent)
        samples, mask, start = samples[end:], mask[cut.end :], start + end


def next_cut(mask: Mask, limit: int, is_last: bool, apart: Callable[[], Mask] | None = None) -> Cut:
    """Return where the piece that begins at frame 0 ends.

    mask: (F,) frames with speech, more than `limit` and a gap unless `is_last`, the rest of the
        recording. limit: largest number of frames of the piece. apart: returns a mask that tells
        symbols apart, if there is no pause; None: `mask` does.
    """
    cut = cut_at_pause(mask, limit)
    if cut is not None:
        return cut
    if is_last and len(mask) <= limit:
        return Cut(len(mask), False)
    # Without a pause: the longest time between two symbols, most likely of different words.
    mask = mask if apart is None else apart()
    inside = [
        (end - start, (start + end) // 2)
        for start, end in _runs(~mask)
        if mask[:start].any() and limit // 4 <= (start + end) // 2 <= limit
    ]
    return Cut(max(inside)[1] if inside else limit, False)


def cut_at_pause(mask: Mask, limit: int) -> Cut | None:
    """Return where the piece that begins at frame 0 ends if a pause or a gap ends it.

    mask, limit: as in `next_cut`, but the mask may be of any length.
    """
    margin, gap = round(MARGIN / FRAME), round(GAP / FRAME)
    speech = np.flatnonzero(mask)
    first = int(speech[0]) if len(speech) else len(mask)
    if first >= gap or first == len(mask):
        end = first if first == len(mask) else first - margin
        return Cut(min(end, limit), True)
    for start, end in _runs(~mask):
        if start <= first:
            continue
        least = gap if start - first < SHORT / FRAME else PAUSE / FRAME
        cut = start + min(margin, (end - start) // 2)
        if end - start >= least and cut <= limit:
            return Cut(cut, False)
    return None


def cut_piece(samples: Samples, start: int, is_silent: bool) -> Piece:
    """Return a piece that begins at sample `start` of its recording; silent: with an empty mask."""
    piece = piece_of(samples.copy(), start / SAMPLE_RATE)
    return piece._replace(speech=piece.speech & (not is_silent), is_cut=True)


def _detected(blocks: Iterable[Samples], detect: Detector) -> Iterator[tuple[Samples, Mask]]:
    """Yield contiguous windows with their frames; context around each is given to the detector."""
    held, first = np.zeros(0, np.float32), 0  # first: sample at which the window begins
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) >= first + _CORE + _CONTEXT:
            mask = detect(held[: first + _CORE + _CONTEXT])
            last = first + _CORE
            yield held[first:last], mask[first // _SIZE : last // _SIZE]
            held, first = held[last - _CONTEXT :], _CONTEXT
    if len(held) > first:
        yield held[first:], detect(held)[first // _SIZE :]


def _at_least(blocks: Iterator[Samples], size: int) -> tuple[Samples, Iterator[Samples]]:
    """Return the first `size` samples or more, or all, and the blocks after them."""
    taken: list[Samples] = []
    while sum(map(len, taken)) < size and (block := next(blocks, None)) is not None:
        taken.append(block)
    return np.concatenate([np.zeros(0, np.float32), *taken]), blocks


def _chain(first: Samples, rest: Iterator[Samples]) -> Iterator[Samples]:
    yield first
    yield from rest


def _runs(mask: Mask) -> Sequence[tuple[int, int]]:
    """Return (start, end) of each run of True."""
    edges = np.flatnonzero(np.diff(np.pad(mask.astype(np.int8), 1)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
