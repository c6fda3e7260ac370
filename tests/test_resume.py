"""`asr transcribe -o` that was interrupted goes on where it stopped; limits on the length."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from tiny_model import write_tiny_model

from asr import cli
from asr.audio.read import read
from asr.inference import stream

FLAC = next((Path(__file__).parents[1] / "data" / "speech").glob("*.flac"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """Return 40 seconds with several pieces."""
    samples = read(FLAC).samples
    parts = [each for _ in range(10) for each in (samples, np.zeros(26_000, np.float32))]
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    soundfile.write(path, np.concatenate(parts), 16_000)
    return path


@pytest.fixture
def transcribe(model, talk, capsys, monkeypatch):
    """Transcribe in groups of one piece; return status, stderr and the number of groups decoded."""
    monkeypatch.setattr(stream, "READ_AHEAD_BATCHES", 0)
    decode = stream.decode_many

    def call(output, *options, stop_at=10**9):
        calls = []

        def counted(*arguments):
            calls.append(arguments)
            if len(calls) == stop_at:
                raise KeyboardInterrupt
            return decode(*arguments)

        monkeypatch.setattr(stream, "decode_many", counted)
        arguments = ["transcribe", talk, "-m", model, "-o", output, "--beam", 1, *options]
        status = cli.main([str(each) for each in arguments])
        return status, capsys.readouterr().err, len(calls)

    return call


def test_resumed_is_uninterrupted(transcribe, tmp_path):
    whole, output = tmp_path / "whole.json", tmp_path / "talk.json"
    _, _, groups = transcribe(whole)
    assert groups > 4
    status, message, done = transcribe(output, stop_at=4)
    assert (status, done) == (130, 4)
    journal = tmp_path / "talk.json.progress"
    kept = f"asr: interrupted: {journal} keeps what is done; the same command resumes\n"
    assert message == kept
    assert journal.exists() and not output.exists()
    journal.write_bytes(journal.read_bytes()[:-7])  # killed while it wrote the third
    status, message, done = transcribe(output, stop_at=2)
    note, _, line = message.partition("\n")
    assert status == 130 and "resumes an interrupted" in note and line == kept
    status, _, done = transcribe(output)
    assert (status, done) == (0, groups - 3)
    assert output.read_bytes() == whole.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == [output.name, whole.name]


def test_other_options_do_not_resume(transcribe, tmp_path):
    output = tmp_path / "talk.txt"
    transcribe(output, stop_at=3)
    status, message, groups = transcribe(output, "--fastest", 0)
    assert status == 0 and "begins anew" in message and message.count("\n") == 1
    assert groups > 4 and [*tmp_path.iterdir()] == [output]


def test_a_short_recording_leaves_no_journal(model, tmp_path):
    assert cli.main(["transcribe", str(FLAC), "-m", str(model), "-o", str(tmp_path / "a.txt")]) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_longer_recording_than_allowed_is_refused(transcribe, talk, tmp_path):
    status, message, _ = transcribe(tmp_path / "a.txt", "--longest", 0.005)
    assert (status, message.count("\n")) == (2, 2)  # and that nothing is written
    assert "--longest" in message and not [*tmp_path.iterdir()]
    assert transcribe(tmp_path / "a.txt", "--longest", 1)[0] == 0


class Endless(io.RawIOBase):
    """A stream that has no end, and counts what was read of it; the test ends it at 256 MiB."""

    def __init__(self, head, rest):
        self.head, self.rest, self.taken = head, rest, 0

    def read(self, size=-1):
        chunk = self.head or self.rest[:size]
        self.head = b""
        self.taken += len(chunk)
        assert self.taken < 2**28, "read on and on"
        return chunk


@pytest.mark.parametrize(("kind", "megabytes", "message"), [
    ("zeros", 70, "do not begin like audio"), ("wav", 140, "more than 0.02 hours"),
])  # fmt: skip
def test_an_endless_stream_ends(model, capsys, monkeypatch, kind, megabytes, message):
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(1000), 16_000, format="wav")
    stream = Endless(buffer.getvalue() if kind == "wav" else b"\0", bytes(2**20))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    assert cli.main(["transcribe", "-", "-m", str(model), "--longest", "0.02"]) == 2
    assert stream.taken < megabytes * 2**20
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and message in lines[0]
