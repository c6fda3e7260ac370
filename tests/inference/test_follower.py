"""Following a reader: the sentence is found while it is read, and the report is that of `read`."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_model import write_tiny_model

import asr
from asr import cli
from asr.audio.read import read
from asr.errors import UserError
from asr.inference import follower as module
from asr.inference.follower import Follower, Position

FLAC = Path(__file__).parents[2] / "data" / "speech" / "5683-32866-0027.flac"
PAGE = """A cold, bright moon was shining
with clear sharp lights and shadows. Nobody reads this sentence aloud today."""


@pytest.fixture(scope="module")
def recognizer():
    return asr.load().configured(beam=1)


@pytest.fixture(scope="module")
def samples():
    """Return the last words of the sample, a pause, and its first words."""
    spoken = read(FLAC).samples
    return np.concatenate([spoken[38_000:], np.zeros(14_000, np.float32), spoken[:36_000]])


def followed(recognizer, samples, chunk: int, page: str = PAGE) -> tuple[list[Position], Follower]:
    follower = Follower(recognizer, page)
    found = []
    for at in range(0, len(samples), chunk):
        found += follower.push(samples[at : at + chunk])
    return [*found, *follower.finish()], follower


def test_sentences_are_found_while_they_are_read(recognizer, samples) -> None:
    page = "A cold bright moon was shining with clear. Sharp lights and shadows."
    found, _ = followed(recognizer, samples, 1600, page)
    sentences = [each.sentence for each in found]
    first, last = sentences.index(1), len(sentences) - 1 - sentences[::-1].index(1)
    assert set(sentences[first : last + 1]) == {1} and set(sentences[last + 1 :]) == {0}
    end_of_first = (len(read(FLAC).samples) - 38_000) / 16_000
    assert found[first].time < end_of_first
    assert [each.time for each in found] == sorted({each.time for each in found})
    words = [each.word for each in found[last + 2 :]]  # the first one was begun only
    assert words == sorted(words) and len(words) > 1


def test_what_was_read_before_a_pause_is_remembered(recognizer) -> None:
    spoken = read(FLAC).samples
    sentence = "A cold bright moon was shining with clear sharp lights and shadows."
    samples = np.concatenate([spoken, np.zeros(14_000, np.float32), spoken])
    found, _ = followed(recognizer, samples, 1600, f"{sentence} {sentence}")
    assert (found[-1].sentence, found[-1].word) == (1, 23)  # the same words, the second time
    middle = (len(spoken) + 7_000) / 16_000
    assert {each.sentence for each in found if each.time < middle} == {0}


def test_places_do_not_depend_on_the_chunks(tmp_path, samples) -> None:
    tiny = asr.load(write_tiny_model(tmp_path / "tiny")).configured(beam=1)
    one, _ = followed(tiny, samples, 700)
    other, _ = followed(tiny, samples, 50_000)
    assert one == other


def test_the_report_is_that_of_read(recognizer, samples) -> None:
    follower = Follower(recognizer, PAGE)
    list(follower.push(samples[:20_000]))
    list(follower.push(samples[20_000:]))
    list(follower.finish())
    np.testing.assert_array_equal(follower.samples(), samples)
    assert follower.reading() == recognizer.read(samples, PAGE, rate=16_000)


def test_as_much_is_followed_as_can_be_compared(recognizer, monkeypatch) -> None:
    monkeypatch.setattr(module, "LONGEST_READ", 2.0)
    monkeypatch.setattr(module, "_MOST_SAMPLES", 32_000)
    follower = Follower(recognizer, PAGE)
    assert not follower.is_full
    assert list(follower.push(np.zeros(40_000, np.float32))) == []  # nobody speaks
    assert follower.is_full and len(follower.samples()) == 32_000


def test_what_cannot_be_followed_is_refused(recognizer, tmp_path) -> None:
    without = asr.load(write_tiny_model(tmp_path / "tiny", ctc=False))
    with pytest.raises(UserError, match="needs a model with a CTC head"):
        Follower(without, PAGE)
    with pytest.raises(UserError, match="nothing is left"):
        Follower(recognizer, "— …")
    with pytest.raises(UserError, match="a rate of 100 Hz"):
        Follower(recognizer, PAGE, 100)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run `asr read` with raw samples on stdin."""
    page = tmp_path / "page.txt"
    page.write_text(PAGE, "utf-8")
    content = (read(FLAC).samples * 32767).astype("<i2").tobytes()

    def call(*arguments: str, stdin: bytes = content) -> SimpleNamespace:
        stream = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin)))
        monkeypatch.setattr("sys.stdin", stream)
        status = cli.main(["read", "--text", str(page), "--beam", "1", *arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


def test_the_page_is_not_replaced(run, tmp_path) -> None:
    page = tmp_path / "page.txt"
    done = run("--follow", "-", "-o", str(page))
    assert done.status == 2 and f"{page}: an input, which would be replaced" in done.err
    assert page.read_text("utf-8") == PAGE


def test_the_command_writes_sentences_and_the_reading(run, tmp_path) -> None:
    lines = run("--follow", "-").out.splitlines()
    sentence = "A cold, bright moon was shining with clear sharp lights and shadows."
    assert [line.partition(" s  ")[2] for line in lines[: lines.index("")]] == [sentence]
    assert "12 right, 0 misread, 6 skipped" in "\n".join(lines)
    output = tmp_path / "out.json"
    done = run("--follow", "-", "-f", "json", "-o", str(output))
    *positions, reading = [json.loads(line) for line in done.out.splitlines()]
    assert {each["type"] for each in positions} == {"position"}
    assert positions[-1] | {"time": 0} == {
        "type": "position",
        "time": 0,
        "sentence": 0,
        "word": 11,
        "text": "shadows.",
        "line": 1,
    }
    assert reading == {"type": "reading", **json.loads(output.read_text())}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--follow", "a.wav"], "--follow reads raw samples from -; got a.wav"),
        (["--follow"], "--follow reads raw samples from -; got none"),
        (["--follow", "-", "--encoding", "klingon"], "got encoding 'klingon'"),
        (["--microphone", "-"], "--microphone takes no file; got -"),
        (["--follow", "-", "-f", "html"], "invalid choice"),
        (["--follow", "-"], "no speech"),
        ([], "no recording"),
    ],
)
def test_wrong_arguments_are_one_line(run, arguments, message) -> None:
    try:
        done = run(*arguments, stdin=bytes(32_000))
    except SystemExit as left:
        assert left.code == 2
        return
    assert (done.status, done.out) == (2, "")
    assert message in done.err and done.err.count("\n") == 1
