"""Recognition of several requests at once: one thread, batches of pieces of all recordings.

Each waiting recording gives its next piece in turn, so that a short one does not wait for the end
of a long one. Only pieces with equal options share a batch; a piece's result does not depend on its
batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from asr.audio.read import stated_seconds
from asr.inference.decoding import decode
from asr.inference.pieces import Piece
from asr.inference.recognizer import Recognizer
from asr.inference.spelling import PunctuatedSegments, with_digits
from asr.results import Segment
from asr.serve.errors import APIError, unavailable

LOG = logging.getLogger("asr.serve")


@dataclass(frozen=True)
class Ended:
    """The end of a recording: all segments were delivered, or why not."""

    error: Exception | None = None


Delivery: TypeAlias = Callable[[Segment | Ended], None]


class Job:
    """A recording that is being recognised; all but `cancel` is called by the scheduler's thread.

    deliver: called with each segment, in order, then with the end.
    """

    def __init__(
        self, path: Path, recognizer: Recognizer, longest: float, deliver: Delivery
    ) -> None:
        self.path = path
        self.recognizer = recognizer
        self.is_over = False  # it gives no more pieces
        self._longest = longest  # seconds
        self._deliver = deliver
        self._pieces: Iterator[Piece] | None = None
        self._next: Piece | None = None
        loaded = recognizer.loaded
        punctuator = loaded.punctuator
        self._text = None if punctuator is None else PunctuatedSegments(punctuator, loaded.names)
        self._error: Exception | None = None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Drop the rest of the recording: nobody waits for it."""
        self._cancelled.set()

    def peek(self) -> Piece | None:
        """Return the next piece without taking it; None if there is none any more."""
        if self._cancelled.is_set():
            self.fail(RuntimeError("cancelled"))
        elif not self.is_over and self._next is None:
            try:
                self._next = self._read()
            except Exception as error:
                self.fail(error)
            else:
                self.is_over = self._next is None
        return self._next

    def take(self) -> None:
        """Take the piece of `peek`."""
        self._next = None

    def add(self, segment: Segment) -> None:
        """Deliver a segment as soon as it can be spelt."""
        if self._error is None:
            self._write([segment] if self._text is None else self._text.add(segment))

    def fail(self, error: Exception) -> None:
        """Give no more pieces."""
        self._error = self._error or error
        self._next, self.is_over = None, True

    def finish(self) -> None:
        """Deliver what still waits, and the end."""
        if self._error is None and self._text is not None:
            self._write(self._text.finish())
        self._pieces = None  # closes the file
        self._deliver(Ended(self._error))

    def _write(self, segments: Iterable[Segment]) -> None:
        for each in with_digits(segments) if self.recognizer.digits else segments:
            self._deliver(each)

    def _read(self) -> Piece | None:
        if self._pieces is None:
            self._require_length(stated_seconds(self.path) or 0.0)
            self._pieces = self.recognizer.pieces(self.path)
        piece = next(self._pieces, None)
        if piece is not None:
            self._require_length(piece.start + piece.duration)
        return piece

    def _require_length(self, seconds: float) -> None:
        if seconds > self._longest:
            raise APIError(
                413,
                f"the recording is longer than {self._longest:g} s, the limit of this service",
                "audio_too_long",
                "file",
            )


class Scheduler:
    """Recognises the recordings of all requests in one thread."""

    def __init__(self, on_batch: Callable[[int, float], object]) -> None:
        """on_batch: called with the pieces and the seconds of audio of each batch."""
        self._on_batch = on_batch
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="recognition", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Recognise a recording.

        Raises:
            APIError: the scheduler was stopped.
        """
        with self._changed:
            if self._is_stopped:
                raise unavailable()
            self._jobs.append(job)
            self._changed.notify()

    def stop(self) -> None:
        """Stop after the current batch, without waiting; recordings that are not finished fail."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    @property
    def is_working(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while jobs := self._waiting():
            batch = _next_batch(jobs)
            for job, segment in _decoded(batch):
                try:
                    job.add(segment)
                except Exception as error:
                    LOG.exception("a segment could not be written")
                    job.fail(error)
            self._on_batch(len(batch), sum(piece.duration for _, piece in batch))
            served = {job for job, _ in batch}
            for job in served:
                job.peek()  # so that the end of a recording is noticed before other batches
            self._reorder(served)
        for job in self._jobs:
            job.fail(unavailable())
            job.finish()

    def _waiting(self) -> list[Job]:
        """Return all jobs as soon as there is one; none if the scheduler was stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._is_stopped)
            return [] if self._is_stopped else [*self._jobs]

    def _reorder(self, served: set[Job]) -> None:
        """Finish jobs that are over; move those that were served to the end."""
        with self._changed:
            over = [job for job in self._jobs if job.is_over]
            going_on = [job for job in self._jobs if not job.is_over]
            self._jobs = sorted(going_on, key=lambda job: job in served)
        for job in over:
            try:
                job.finish()
            except Exception as error:
                LOG.exception("a recording could not be finished")
                job.fail(error)
                job.finish()


def _next_batch(jobs: Sequence[Job]) -> list[tuple[Job, Piece]]:
    """Take the next piece of each job in turn until the batch is full.

    The options are those of the first job that has a piece; jobs with others wait.
    """
    batch: list[tuple[Job, Piece]] = []
    going_on = True
    while going_on:
        going_on = False
        for job in jobs:
            if batch and not _share_options(job.recognizer, batch[0][0].recognizer):
                continue
            piece = job.peek()
            if piece is None:
                continue
            if batch and not _fits(batch, piece):
                return batch
            job.take()
            batch.append((job, piece))
            going_on = True
    return batch


def _share_options(one: Recognizer, other: Recognizer) -> bool:
    return one.loaded is other.loaded and one.decoding == other.decoding


def _fits(batch: Sequence[tuple[Job, Piece]], piece: Piece) -> bool:
    """Whether a batch with one more piece, padded, is no longer than its options allow."""
    longest = max(piece.duration, *(each.duration for _, each in batch))
    return longest * (len(batch) + 1) <= batch[0][0].recognizer.decoding.batch_seconds


def _decoded(batch: Sequence[tuple[Job, Piece]]) -> Iterator[tuple[Job, Segment]]:
    """Decode a batch; if that fails, each piece alone, so that the others succeed."""
    if not batch:
        return
    recognizer = batch[0][0].recognizer
    try:
        segments = decode(recognizer.loaded, [piece for _, piece in batch], recognizer.decoding)
    except Exception as error:
        LOG.exception("a batch of %d pieces failed", len(batch))
        if len(batch) == 1:
            batch[0][0].fail(error)
            return
        for each in batch:
            yield from _decoded([each])
        return
    for (job, _), segment in zip(batch, segments, strict=True):
        yield job, segment
