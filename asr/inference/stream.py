"""Recordings → segments of bare words, some minutes of audio at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from asr.audio.arrays import takes_rate
from asr.audio.read import Source, read_blocks
from asr.errors import UserError
from asr.inference.cutting import pieces_for
from asr.inference.decoding import decode_many
from asr.inference.journal import Journal
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece
from asr.inference.sources import (
    Failure,
    Finished,
    Progress,
    path_of,
    require_length,
)
from asr.results import Segment

_READ = 0.1  # share of a piece's progress that is reported when it is read
READ_AHEAD_BATCHES = 4  # of pieces that are read, and sorted by length, before any is decoded


def segments_of_each(
    loaded: LoadedModel,
    options: DecodingOptions,
    sources: Iterable[Source],
    rate: int | None,
    on_progress: Progress | None,
    journal: Journal | None,
) -> Iterator[Segment | Finished | Failure]:
    """Yield the results of `Recognizer.segments_of_each` with bare words; rate: of arrays."""
    window: list[Piece | Finished | Failure] = []
    seconds = 0.0
    for source in sources:
        its_rate = rate if takes_rate(source) else None
        for found in _pieces(loaded, options, source, its_rate):
            window.append(found)
            if isinstance(found, Piece):
                seconds += found.duration
                if on_progress is not None:
                    on_progress(_READ * found.duration)
            if seconds >= READ_AHEAD_BATCHES * options.batch_seconds:
                yield from _decoded(loaded, options, window, on_progress, journal)
                window, seconds = [], 0.0
    yield from _decoded(loaded, options, window, on_progress, None)  # the results follow at once


def pieces_of(
    loaded: LoadedModel, options: DecodingOptions, source: Source, rate: int | None
) -> Iterator[Piece]:
    """Yield the pieces of a recording, as they are read.

    Raises:
        UserError: the recording cannot be read or is too short.
    """
    blocks = read_blocks(source, rate, 3600 * options.longest)
    for piece in pieces_for(loaded, blocks, options.segment_seconds):
        require_length(piece.start + piece.duration, source)
        yield piece


def _pieces(
    loaded: LoadedModel, options: DecodingOptions, source: Source, rate: int | None
) -> Iterator[Piece | Finished | Failure]:
    """Yield the pieces of a recording, then that it is finished, or why it failed."""
    try:
        yield from pieces_of(loaded, options, source, rate)
    except UserError as error:
        yield Failure(path_of(source), error)
    else:
        yield Finished(path_of(source))


def _decoded(
    loaded: LoadedModel,
    options: DecodingOptions,
    window: Sequence[Piece | Finished | Failure],
    on_progress: Progress | None,
    journal: Journal | None,
) -> Iterator[Segment | Finished | Failure]:
    """Decode the pieces, or take them from the journal; the order is kept."""
    given = [each for each in window if isinstance(each, Piece)]

    def decoded(seconds: float) -> None:
        if on_progress is not None:
            on_progress((1 - _READ) * seconds)

    found = journal.known(given) if journal is not None else None
    if found is None:
        found = decode_many(loaded, given, options, decoded)
        if journal is not None:
            journal.add(found)
    else:
        decoded(sum(piece.duration for piece in given))
    in_order = iter(found)
    for each in window:
        yield next(in_order) if isinstance(each, Piece) else each
