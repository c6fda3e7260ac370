"""The service of faster-whisper that ours is compared with."""

import runpy
from collections import namedtuple
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

Segment = namedtuple("Segment", "text")
About = namedtuple("About", "duration")


class Model:
    """Stands for faster-whisper's model: hears the content of the file."""

    def transcribe(self, audio, language, beam_size):
        assert language == "en" and beam_size == 5
        return iter([Segment(" heard"), Segment(" " + audio.read().decode())]), About(2.5)


def test_a_recording_is_answered_and_metrics_are_what_the_measurement_reads(monkeypatch):
    pytest.importorskip("starlette")
    from starlette.testclient import TestClient

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = runpy.run_path(str(BENCHMARKS / "whisper_service.py"))
    build = script["build"]
    monkeypatch.setitem(build.__globals__, "find_weights", lambda name: f"at {name}")
    monkeypatch.setitem(build.__globals__, "whisper", {"at whisper-tiny.en": Model()}.get)
    client = TestClient(build("whisper-tiny.en"))
    serving = runpy.run_path(str(BENCHMARKS / "serving.py"))
    answer = client.post(serving["PATH"], files={"file": ("clip", b"a voice")})
    assert answer.json() == {"text": " heard a voice", "duration": 2.5}
    assert "process_cpu_seconds_total" in client.get("/metrics").text
