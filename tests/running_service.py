"""A running service, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from asr.serve.server import Server
from asr.serve.service import Service

FLAC = Path(__file__).parents[1] / "data" / "speech" / "5683-32866-0027.flac"


@dataclass
class Running:
    """A service that answers at `url`."""

    url: str
    service: Service
    server: Server
    client: httpx.Client  # one for all: each would read the certificates of the system

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self.url.rpartition(":")[2])

    def post(self, path: str, content: bytes | None = None, **fields: str | list[str]):
        """Send a form."""
        files = {"file": ("clip.wav", content)} if content is not None else None
        if files is None:
            return self.client.post(path, data=fields)
        return self.client.post(path, data=fields, files=files)

    def metric(self, name: str) -> float:
        """Return a value of /metrics."""
        return self.service.metrics.registry.get_sample_value(name) or 0.0


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)
