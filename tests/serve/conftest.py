"""A service in a thread of the tests, with a model that decodes greedily."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import soundfile
from running_service import FLAC, Running, wait_for
from tiny_model import write_tiny_model

import asr
from asr.audio.read import read
from asr.inference.recognizer import Recognizer
from asr.serve.server import listen, server
from asr.serve.service import Service
from asr.serve.settings import ServiceLimits


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model with random weights."""
    return write_tiny_model(tmp_path_factory.mktemp("serve") / "english")


@pytest.fixture(scope="module")
def recognizer(tiny_folder: Path) -> Recognizer:
    """Return that model, greedy; a module may have its own."""
    return asr.load(tiny_folder).configured(beam=1)


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return recordings of about 1 s, all different."""
    folder = tmp_path_factory.mktemp("clips")
    samples = read(FLAC).samples
    found = []
    for number in range(8):
        path = folder / f"{number}.wav"
        soundfile.write(path, samples[6000 + 4000 * number :][: 14000 + 1000 * number], 16000)
        found.append(path.read_bytes())
    return found


@pytest.fixture(scope="module")
def start(recognizer: Recognizer):
    """Return what runs a service with some limits, as a context manager."""

    @contextmanager
    def run(key: str | None = None, **limits: float) -> Iterator[Running]:
        service = Service("english", recognizer, ServiceLimits(**limits), key)
        listening = listen("127.0.0.1", 0)
        its = server(service)
        thread = threading.Thread(target=its.run, args=([listening],))
        thread.start()
        wait_for(lambda: its.started)
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(base_url=url, timeout=300, verify=False) as client:
                yield Running(url, service, its, client)
        finally:
            its.should_exit = True
            thread.join()

    return run


@pytest.fixture(scope="module")
def running(start) -> Iterator[Running]:
    """Return a service with the limits that most tests use."""
    with start(max_upload=1.0, max_seconds=30.0) as found:
        yield found
