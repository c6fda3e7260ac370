"""Limits of the service."""

from __future__ import annotations

from dataclasses import dataclass

from asr.tables import Settings, setting


@dataclass(frozen=True)
class ServiceLimits(Settings):
    """What one request, and all of them together, may take."""

    max_upload: float = setting(
        100.0, "Largest body of a request, in megabytes.", above=0, most=4096
    )
    max_seconds: float = setting(
        3600.0, "Longest recording, in seconds; also of a live session.", above=0, most=86_400
    )
    timeout: float = setting(
        600.0,
        "Seconds that a request may take; its upload may take as long again.",
        above=0,
        most=86_400,
    )
    max_requests: int = setting(
        64,
        "Requests that are accepted at the same time; others get status 503.",
        least=1,
        most=10_000,
    )
    max_live: int = setting(
        4, "Live sessions at the same time; others are refused.", least=0, most=1000
    )
    stop_seconds: float = setting(
        60.0,
        "Seconds in which accepted requests are finished after SIGTERM or SIGINT.",
        least=0,
        most=86_400,
    )
    cache_seconds: float = setting(
        0.0,
        "Seconds of audio whose encoder output is kept in memory for repeated audio; "
        "`english` takes 70 kB a second.",
        least=0,
        most=86_400,
    )
