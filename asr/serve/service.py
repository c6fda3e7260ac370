"""The models, limits and threads that all requests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from prometheus_client import Gauge

from asr.inference.recognizer import Recognizer
from asr.inference.translator import SHIPPED as TRANSLATORS
from asr.inference.translator import Translator
from asr.results import Segment
from asr.serve.errors import APIError, unavailable
from asr.serve.metrics import Metrics
from asr.serve.scheduler import Ended, Job, Scheduler
from asr.serve.settings import ServiceLimits

# names that clients of other services send
ALIASES: Final = ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")

Result = TypeVar("Result")


class Service:
    """One speech model, the package's translators, and what runs them.

    name: of the speech model, as clients choose it. api_key: which requests must carry, or None.
    """

    def __init__(
        self, name: str, recognizer: Recognizer, limits: ServiceLimits, api_key: str | None = None
    ) -> None:
        self.name = name
        self.recognizer = recognizer
        self.limits = limits
        self.api_key = api_key
        self.metrics = Metrics()
        self.stopping = asyncio.Event()
        self._scheduler = Scheduler(self.metrics.count_batch)
        self._single = ThreadPoolExecutor(1, "single")  # alignment, reading, translation
        self._live = ThreadPoolExecutor(max(1, limits.max_live), "live")
        self._translators: dict[str, Translator] = {}
        self._futures: set[Future[Any]] = set()  # what the executors work on
        self._accepted = 0
        self._sessions = 0

    @property
    def models(self) -> list[str]:
        """Names of all models: of speech, then those that translate."""
        return [self.name, *(TRANSLATORS[to].name for to in TRANSLATORS)]

    def require_speech_model(self, name: str) -> None:
        """Check the model that a client names.

        Raises:
            APIError: it is not the one that is served.
        """
        if name and name not in (self.name, *ALIASES):
            raise APIError(
                404, f"model {name!r} is not served; wanted {self.name}", "model_not_found", "model"
            )

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Count a request while it is worked on.

        Raises:
            APIError: there are too many, or the service is stopping.
        """
        if self.stopping.is_set():
            raise unavailable()
        if self._accepted >= self.limits.max_requests:
            raise APIError(503, f"{self._accepted} requests are in progress; try again", "busy")
        self._accepted += 1
        with _counted(self.metrics.accepted):
            try:
                yield
            finally:
                self._accepted -= 1

    @contextmanager
    def session(self) -> Iterator[None]:
        """Count a live session.

        Raises:
            APIError: there are too many, or the service is stopping.
        """
        if self.stopping.is_set():
            raise unavailable()
        if self._sessions >= self.limits.max_live:
            raise APIError(503, f"{self._sessions} live sessions are open; try again", "busy")
        self._sessions += 1
        with _counted(self.metrics.live):
            try:
                yield
            finally:
                self._sessions -= 1

    @property
    def sessions(self) -> int:
        """Number of live sessions."""
        return self._sessions

    async def segments(self, path: Path, recognizer: Recognizer) -> AsyncIterator[Segment]:
        """Recognise a recording, in batches with those of other requests.

        Raises:
            UserError, APIError: it cannot be read, or is too long.
        """
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[Segment | Ended] = asyncio.Queue()

        def deliver(result: Segment | Ended) -> None:
            loop.call_soon_threadsafe(results.put_nowait, result)

        job = Job(path, recognizer, self.limits.max_seconds, deliver)
        self._scheduler.submit(job)
        try:
            while isinstance(result := await results.get(), Segment):
                yield result
            if result.error is not None:
                raise result.error
        finally:
            job.cancel()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run what is not batched, one at a time."""
        return await self._in(self._single, work)

    async def run_live(self, work: Callable[[], Result]) -> Result:
        """Run a step of a live session; each session may have a thread."""
        return await self._in(self._live, work)

    async def _in(self, executor: Executor, work: Callable[[], Result]) -> Result:
        future = executor.submit(work)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return await asyncio.wrap_future(future)

    async def translator(self, to: str) -> Translator:
        """Return the package's translator to a language, which is loaded when first used.

        Raises:
            UserError: there is none.
        """
        if to in self._translators:  # also while the thread works for somebody else
            return self._translators[to]
        return await self.run(partial(self._loaded_translator, to))

    def _loaded_translator(self, to: str) -> Translator:
        """Load a translator unless an earlier request has; in the thread of `run`."""
        if to not in self._translators:
            self._translators[to] = Translator.load(to=to)
        return self._translators[to]

    @property
    def is_working(self) -> bool:
        """Whether a thread still works, for instance after `close`."""
        return bool(self._futures) or self._scheduler.is_working

    def close(self) -> None:
        """Let the threads end after what they are doing; what waits fails."""
        self._scheduler.stop()
        for executor in (self._single, self._live):
            executor.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _counted(gauge: Gauge) -> Iterator[None]:
    gauge.inc()
    try:
        yield
    finally:
        gauge.dec()
