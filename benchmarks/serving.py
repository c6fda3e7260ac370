"""Measure a running service under load: requests a second, latency, memory.

    asr serve --port 8000 &
    python benchmarks/serving.py http://127.0.0.1:8000 data/speech/*.flac [--clients N]
        [--requests N] [--key KEY]

Each client sends one recording after another to /v1/audio/transcriptions. The recordings are sent
once before the measurement, and each answer must be the same every time.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from asr.errors import UserError, exit_status

PATH = "/v1/audio/transcriptions"
TIMEOUT = 600.0  # seconds


class Answer(NamedTuple):
    """Of one request; seconds: from its start to the whole answer; audio: seconds of it."""

    recording: int
    status: int
    text: str
    seconds: float
    audio: float


def main() -> int:
    """Print the figures; fail if an answer was lost or changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--key", default="")
    given = parser.parse_args()
    contents = [path.read_bytes() for path in given.recordings]
    asyncio.run(measure(given.url, contents, given.clients, given.requests, given.key))
    return 0


async def measure(
    url: str, contents: Sequence[bytes], clients: int, requests: int, key: str
) -> None:
    """Send the requests and print what came of them."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=TIMEOUT, limits=limits
    ) as client:
        first = [await ask(client, contents, number) for number in range(len(contents))]
        before = await usage(client)
        started = time.perf_counter()
        numbers = iter(range(requests))  # each client takes the next one

        async def work() -> list[Answer]:
            return [await ask(client, contents, number) for number in numbers]

        found = await asyncio.gather(*(work() for _ in range(clients)))
        answers = [each for its in found for each in its]
        seconds = time.perf_counter() - started
        after = await usage(client)
    report(answers, first, clients, seconds)
    cpu = after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]
    audio = sum(each.audio for each in answers)
    memory = [each["process_resident_memory_bytes"] / 1e6 for each in (before, after)]
    print(f"server: {cpu:.1f} CPU s, {audio / cpu:.1f} s of audio a CPU s")
    print(f"memory: {memory[0]:.0f} MB before, {memory[1]:.0f} MB after")


async def ask(client: httpx.AsyncClient, contents: Sequence[bytes], number: int) -> Answer:
    """Send one request."""
    recording = number % len(contents)
    started = time.perf_counter()
    answer = await client.post(
        PATH,
        files={"file": ("clip", contents[recording])},
        data={"response_format": "verbose_json"},
    )
    seconds = time.perf_counter() - started
    record = answer.json() if answer.status_code == 200 else {"text": "", "duration": 0.0}
    return Answer(recording, answer.status_code, record["text"], seconds, record["duration"])


async def usage(client: httpx.AsyncClient) -> dict[str, float]:
    """Return the metrics of the process of the service."""
    text = (await client.get("/metrics")).text
    return {name: float(value) for name, value in re.findall(r"^(process_\w+) (\S+)$", text, re.M)}


def report(
    answers: Sequence[Answer], first: Sequence[Answer], clients: int, seconds: float
) -> None:
    """Print rates and latencies.

    Raises:
        UserError: a text differs from that of the same recording alone.
    """
    statuses = Counter(each.status for each in answers)
    times = [each.seconds for each in answers if each.status == 200]
    audio = sum(each.audio for each in answers)
    print(
        f"{len(answers)} requests of {clients} clients in {seconds:.1f} s; status {dict(statuses)}"
    )
    print(f"{len(times) / seconds:.2f} requests/s, {audio / seconds:.1f} s of audio a second")
    print(
        "latency: p50 {:.2f} s, p95 {:.2f} s, largest {:.2f} s".format(
            *np.percentile(times, (50, 95, 100))
        )
    )
    changed = [
        each for each in answers if each.status == 200 and each.text != first[each.recording].text
    ]
    if changed:
        raise UserError(f"{len(changed)} answers differ from those of the recording alone")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
