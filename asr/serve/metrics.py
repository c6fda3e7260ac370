"""What the service counts, in the text format of Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_PIECES: Final = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory and CPU time, on Linux
        self.requests = Counter(
            "asr_requests",
            "Requests answered; status 499: the client left.",
            ["endpoint", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "asr_request_seconds",
            "Time from the headers of a request to the end of its answer.",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.accepted = Gauge(
            "asr_requests_in_progress", "Accepted requests.", registry=self.registry
        )
        self.live = Gauge("asr_live_sessions", "Live sessions.", registry=self.registry)
        self.audio = Counter(
            "asr_audio_seconds", "Audio that was recognised, in seconds.", registry=self.registry
        )
        self.pieces = Histogram(
            "asr_batch_pieces",
            "Pieces of audio recognised at once.",
            buckets=_PIECES,
            registry=self.registry,
        )

    def count_batch(self, pieces: int, seconds: float) -> None:
        """Count a batch of the scheduler."""
        if pieces:
            self.pieces.observe(pieces)
            self.audio.inc(seconds)

    def text(self) -> bytes:
        """Return all of them."""
        return generate_latest(self.registry)
