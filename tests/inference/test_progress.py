"""Progress is reported while a recording is read, after each batch, and never beyond its length."""

import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from tiny_model import write_tiny_model

from asr.audio.read import read
from asr.commands.progress import Bar
from asr.inference import stream
from asr.inference.recognizer import Recognizer

FLAC = Path(__file__).parents[2] / "data" / "speech" / "5683-32866-0027.flac"


def test_reading_and_each_batch_are_reported(tmp_path: Path, monkeypatch) -> None:
    samples = read(FLAC).samples
    talk = np.concatenate([part for _ in range(10) for part in (samples, np.zeros(26_000))])
    recognizer = Recognizer.load(write_tiny_model(tmp_path / "model"))
    recognizer = recognizer.configured(beam=1, batch_seconds=20.0)
    seen: list[float] = []
    before_decoding: list[list[float]] = []
    decode = stream.decode_many

    def watched(*arguments):
        before_decoding.append([*seen])
        return decode(*arguments)

    monkeypatch.setattr(stream, "decode_many", watched)
    transcript = recognizer.transcribe(
        talk.astype(np.float32), rate=16_000, on_progress=seen.append
    )
    assert len(before_decoding[0]) > 2  # while it is read
    assert len(seen) > len(before_decoding[0]) + 1  # several batches
    assert sum(seen) == pytest.approx(transcript.duration)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("total", "end"), [(1.0, "1.00/1.00"), (None, "1.05s")])
@pytest.mark.filterwarnings("error")
def test_a_bar_does_not_pass_its_end(total: float | None, end: str, monkeypatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Bar(total) as bar:
        for _ in range(3):
            bar.advance(0.35)
        bar.clear()
    assert end in shown.getvalue().rpartition("\r")[2]


def test_no_bar_is_shown_where_no_terminal_is(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", StringIO())
    with Bar(1.0) as bar:
        bar.advance(0.5)
        bar.clear()
    assert sys.stderr.getvalue() == ""
