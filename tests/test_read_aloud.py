"""`asr read`: a shipped sample against its text and against an altered one; wrong arguments."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

import asr
from asr import cli
from asr.audio.read import read
from asr.errors import UserError
from asr.inference.recognizer import LONGEST_PAGE, LONGEST_READ, Recognizer
from asr.reading import Reading, ReadStatus

SPEECH = Path(__file__).parents[1] / "data" / "speech"
FLAC = SPEECH / "5683-32866-0027.flac"
TEXT = "a cold bright moon was shining with clear sharp lights and shadows"
ALTERED = "A cold, bright room was always\nshining clear sharp lights and shadows."


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return asr.load()


@pytest.fixture(scope="module")
def altered(recognizer: Recognizer) -> Reading:
    return recognizer.read(FLAC, ALTERED)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run `asr read` and return status, stdout and stderr."""

    def call(*arguments: object) -> SimpleNamespace:
        try:
            status = cli.main(["read", *map(str, arguments)])
        except SystemExit as left:
            status = left.code
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.txt"
    path.write_text(ALTERED, "utf-8")
    return path


def test_what_was_read_is_right(recognizer: Recognizer) -> None:
    reading = recognizer.read(FLAC, TEXT)
    assert [word.text for word in reading.words] == TEXT.split()
    assert {word.status for word in reading.words} == {ReadStatus.RIGHT}
    assert reading.accuracy == 1
    aligned = recognizer.align(FLAC, TEXT).words
    for word, other in zip(reading.words, aligned, strict=True):
        assert (word.start, word.end) == pytest.approx((other.start, other.end))
        assert word.confidence is not None and 0.5 < word.confidence <= 1


def test_an_altered_page_is_misread_skipped_and_added(altered: Reading) -> None:
    found = [
        (word.text, word.status.value, word.heard)
        for word in altered.words
        if word.status is not ReadStatus.RIGHT
    ]
    assert found == [
        ("room", "misread", "moon"),
        ("always", "skipped", None),
        ("with", "added", "with"),
    ]
    assert altered.accuracy == 10 / 12
    assert [word.line for word in altered.words] == [0] * 6 + [1] * 7
    indices = [word.place for word in altered.words if word.place is not None]
    assert indices == list(range(12))


def test_words_that_the_reader_did_not_reach_do_not_count(recognizer: Recognizer) -> None:
    page = TEXT.replace("moon ", "silver moon ") + "\nand nobody had come"
    reading = recognizer.read(FLAC, page)
    assert reading.count(ReadStatus.SKIPPED) == 5
    assert (reading.reached, reading.accuracy) == (13, 12 / 13)
    assert reading.record()["reached"] == 13


def test_words_said_twice_are_repeated_and_a_pause_is_a_hesitation(recognizer: Recognizer) -> None:
    samples = read(FLAC).samples
    words = recognizer.align(FLAC, TEXT).words
    start, end = (round(16_000 * each) for each in (words[5].start, words[5].end))
    quiet = 0.001 * np.random.default_rng(1).standard_normal(16_000).astype(np.float32)
    twice = np.concatenate([samples[:end], quiet, samples[start:]])
    reading = recognizer.read(twice, TEXT, rate=16_000)
    shining = [word for word in reading.words if word.text == "shining"]
    assert [word.status for word in shining] == [ReadStatus.REPEATED, ReadStatus.RIGHT]
    (hesitation,) = reading.hesitations
    assert reading.words[hesitation.word] == shining[1]
    assert hesitation.end - hesitation.start == pytest.approx(1, abs=0.2)


def test_a_pause_between_paragraphs_is_no_hesitation(recognizer: Recognizer) -> None:
    samples = read(FLAC).samples
    moon = recognizer.align(FLAC, TEXT).words[3]
    at = round(16_000 * moon.end)
    quiet = 0.001 * np.random.default_rng(1).standard_normal(16_000).astype(np.float32)
    paused = np.concatenate([samples[:at], quiet, samples[at:]])
    for space, count in ((" ", 1), ("\n", 1), ("\n\n", 0)):
        reading = recognizer.read(paused, TEXT.replace("moon ", f"moon{space}"), rate=16_000)
        assert len(reading.hesitations) == count


def test_the_text_of_another_recording_is_hardly_right(recognizer: Recognizer) -> None:
    reading = recognizer.read(FLAC, "out in the woods stood a nice little fir tree")
    right = {word.text for word in reading.words if word.status is ReadStatus.RIGHT}
    assert right <= {"in", "the", "a"}  # short words are likely anywhere


def test_a_long_number_that_was_not_read_leaves_the_words_around_it_alone(
    recognizer: Recognizer,
) -> None:
    page = TEXT.replace("bright", "77,777")  # ten times as long as what was said
    reading = recognizer.read(FLAC, page)
    assert [word.text for word in reading.words] == page.split()
    (misread,) = [word for word in reading.words if word.status is not ReadStatus.RIGHT]
    assert (misread.text, misread.status, misread.heard) == (
        "77,777",
        ReadStatus.MISREAD,
        "bright",
    )
    spoken = {word.text: word for word in recognizer.read(FLAC, TEXT).words}["bright"]
    assert misread.start == pytest.approx(spoken.start, abs=0.1)
    assert misread.end == pytest.approx(spoken.end, abs=0.1)


def test_a_page_may_be_longer_than_what_was_said(recognizer: Recognizer) -> None:
    samples = read(FLAC).samples[:24_000]  # "a cold bright moon"
    reading = recognizer.read(samples, "a cold 777,777,777,777", rate=16_000)
    assert [word.text for word in reading.words][:3] == ["a", "cold", "777,777,777,777"]
    times = [time for word in reading.words for time in (word.start, word.end)]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= reading.duration


def test_text_without_colour_where_there_is_no_terminal(run, page: Path) -> None:
    done = run(FLAC, "--text", page)
    assert done.status == 0
    assert done.out.splitlines()[0] == "A cold, bright room [moon] was (always)"
    assert "\x1b" not in done.out


@pytest.mark.parametrize(("refused", "colour"), [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_refused(
    run, page: Path, monkeypatch: pytest.MonkeyPatch, refused: str, colour: bool
) -> None:
    monkeypatch.setattr("asr.commands.read.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", refused)
    monkeypatch.setenv("TERM", "xterm")
    from asr.commands.read import has_colour

    assert has_colour() == colour


def test_files_and_json(run, page: Path, tmp_path: Path, altered: Reading) -> None:
    outputs = [tmp_path / f"out.{ending}" for ending in ("json", "html", "txt")]
    given = [part for path in outputs for part in ("-o", path)]
    done = run(FLAC, "--text", page, *given, "-f", "json")
    assert done.status == 0
    record = json.loads(done.out)
    assert record == json.loads(outputs[0].read_text())
    assert record == {**altered.record(), "path": str(FLAC)}
    assert set(record["words"][0]) == {
        "word",
        "status",
        "heard",
        "start",
        "end",
        "confidence",
        "line",
    }
    assert "data:audio/flac;base64," in outputs[1].read_text()
    assert "room [moon]" in outputs[2].read_text()


def test_a_page_in_another_encoding_is_read(run, tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("“" + TEXT.replace(" ", "\r\n", 1) + "”", "cp1252", newline="")
    done = run(FLAC, "--text", page, "-f", "json")
    words = json.loads(done.out)["words"]
    assert [word["word"].strip("“”") for word in words] == TEXT.split()
    assert "not UTF-8, read as cp1252" in done.err
    assert run(FLAC, "--text", page, "--encoding", "cp1252").err == ""
    assert "name its encoding" in run(FLAC, "--text", page, "--encoding", "utf-8").err


def test_the_page_of_another_recording_is_warned_of(run, page: Path) -> None:
    page.write_text("Out in the woods stood a nice little fir tree, and it was not happy.", "utf-8")
    told = f"asr: warning: {page}: little of {FLAC} was read from it; is this the right page?"
    assert run(FLAC, "--text", page).err.strip() == told
    page.write_text(f"{TEXT}. {'And so on it went. ' * 20}", "utf-8")  # which goes on
    assert run(FLAC, "--text", page).err == ""


def test_wrong_arguments_are_one_line(run, page: Path, tmp_path: Path) -> None:
    empty, silent = tmp_path / "empty.txt", tmp_path / "silent.wav"
    empty.write_text("— …\n")
    blank = tmp_path / "blank.txt"
    blank.write_text(" \n\n")
    soundfile.write(silent, np.zeros(16_000), 16_000)
    output = tmp_path / "out.html"
    for arguments, message in (
        ((FLAC,), "--text"),
        ((FLAC, "--text", tmp_path / "none.txt"), "none.txt: no such file"),
        ((FLAC, "--text", "a cold bright moon " * 20), "wanted a text file of the page, not its"),
        ((FLAC, "--text", empty), "nothing is left"),
        ((FLAC, "--text", blank), f"asr: error: {blank}: an empty page"),
        ((tmp_path / "none.wav", "--text", page), "none.wav"),
        ((silent, "--text", page, "-o", output), f"asr: error: {silent}: no speech in it"),
        ((FLAC, "--text", page, "-o", tmp_path / "out.doc"), "unknown format '.doc'"),
        ((FLAC, "--text", page, "-f", "html"), "invalid choice"),
        ((FLAC, "--text", page, "-o", page), f"{page}: an input, which would be replaced"),
    ):
        done = run(*arguments)
        assert done.status == 2
        assert done.out == ""
        assert done.err.count("\n") == 1 and message in done.err
    assert not output.exists() and page.read_text("utf-8") == ALTERED


def test_what_is_too_long_is_refused(
    recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="words, wanted at most"):
        recognizer.read(FLAC, "moon " * (LONGEST_PAGE + 1))
    with monkeypatch.context() as patch, pytest.raises(UserError, match="wanted at most 2000"):
        patch.setattr("asr.inference.recognizer.normalize", None)  # it would take longer
        recognizer.align(FLAC, "1984 " * (LONGEST_PAGE + 1))
    with pytest.raises(UserError, match="cut both"):
        recognizer.read(np.zeros(round(16_000 * LONGEST_READ) + 16_000), TEXT, rate=16_000)


def test_html_recording_is_what_was_read(tmp_path: Path) -> None:
    from asr.commands.read import _flac

    waveform = read(FLAC)
    again, rate = soundfile.read(io.BytesIO(_flac(waveform)), dtype="float32")
    assert rate == waveform.rate
    np.testing.assert_allclose(again, waveform.samples, atol=1 / 32768)
