"""Live recognition: what is final does not depend on the chunks, and nothing is lost."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import write_tiny_model

import asr
from asr import cli
from asr.audio.read import read
from asr.errors import UserError
from asr.inference import live
from asr.inference.cutting import by_energy, no_speech
from asr.inference.live import Finalised, LiveText, Partial, pcm_samples
from asr.inference.recognizer import Recognizer
from asr.inference.segments import silence

FLAC = Path(__file__).parents[2] / "data" / "speech" / "5683-32866-0027.flac"


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory):
    """Return a tiny model that decodes greedily."""
    return asr.load(write_tiny_model(tmp_path_factory.mktemp("tiny"))).configured(beam=1)


@pytest.fixture(scope="module")
def spoken():
    """Return 10 s with two pauses and a gap: speech, 0.9 s, speech, 2.5 s, speech, nothing."""
    speech = read(FLAC).samples
    silent = [np.zeros(round(16000 * seconds), np.float32) for seconds in (0.9, 2.5)]
    return np.concatenate([speech[5000:], silent[0], speech[5000:40000], silent[1], speech[:9000]])


@pytest.fixture(autouse=True)
def hearingby_energy(monkeypatch):
    """Find pauses by energy: random weights find none."""

    def heard(_, samples, has_text):
        mask = by_energy(samples)
        return mask, f"{len(samples)} samples" if mask.any() else ""

    monkeypatch.setattr(LiveText, "_decoded", heard)


def events(recognizer: Recognizer, samples: np.ndarray, chunks: list[int], rate: int = 16000):
    """Push samples in chunks of these sizes, in turn."""
    text = LiveText(recognizer, rate)
    found, at, turn = [], 0, 0
    while at < len(samples):
        size = chunks[turn % len(chunks)]
        found += text.push(samples[at : at + size])
        at, turn = at + size, turn + 1
    return [*found, *text.finish()]


def final(found):
    """Return what is final of events, in a form that can be compared."""
    segments = [each.segment for each in found if not isinstance(each, Partial)]
    return [(each.start, each.end, each.text, each.words) for each in segments]


@settings(max_examples=6)
@given(
    chunks=st.lists(st.integers(1, 40_000), min_size=1, max_size=4).filter(lambda c: sum(c) > 99)
)
def test_what_is_final_does_not_depend_on_the_chunks(recognizer, spoken, chunks):
    whole = final(events(recognizer, spoken, [len(spoken)]))
    assert final(events(recognizer, spoken, chunks)) == whole
    assert len(whole) >= 3


@pytest.mark.parametrize("rate", [8000, 44100])
def test_neither_does_it_at_another_rate(recognizer, spoken, rate):
    samples = soxr.resample(spoken[:64000], 16000, rate).astype(np.float32)
    whole = final(events(recognizer, samples, [len(samples)], rate))
    assert final(events(recognizer, samples, [333, 7001], rate)) == whole
    assert whole


def test_partial_text_is_that_of_all_that_was_given(recognizer, spoken, monkeypatch):
    wanted = []

    def heard(_, samples, has_text):
        wanted.append(has_text)
        return by_energy(samples), f"{len(samples)} samples" if has_text else ""

    monkeypatch.setattr(LiveText, "_decoded", heard)
    text = LiveText(recognizer)
    assert text.push(spoken[:19200]) == [Partial(0, "19200 samples")]  # three blocks at once
    assert wanted == [False, False, True]
    assert text.push(spoken[19200:25600]) == [Partial(0, "25600 samples")]


def test_segments_are_in_order_and_hold_all_speech(recognizer, spoken, monkeypatch):
    pieces = []
    real = live.decode

    def decode(loaded, given, options):
        pieces.extend(given)
        return real(loaded, given, options)

    monkeypatch.setattr(live, "decode", decode)
    events(recognizer, spoken, [1600])
    np.testing.assert_array_equal(np.concatenate([each.samples for each in pieces]), spoken)
    starts = np.cumsum([0, *(len(each.samples) for each in pieces[:-1])]) / 16000
    assert [each.start for each in pieces] == pytest.approx(starts.tolist())
    assert max(each.duration for each in pieces) <= recognizer.decoding.segment_seconds


def test_text_is_final_soon_after_a_pause(recognizer, spoken):
    text = LiveText(recognizer)
    end_of_speech = (len(read(FLAC).samples) - 5000) / 16000
    for at in range(0, len(spoken), 1600):
        if any(isinstance(each, Finalised) for each in text.push(spoken[at : at + 1600])):
            break
    assert end_of_speech < (at + 1600) / 16000 < end_of_speech + 0.9 + live.HOP


def test_speech_without_a_pause_is_cut_at_the_limit(recognizer):
    noise = np.random.default_rng(0).normal(0, 0.1, 16000 * 9).astype(np.float32)
    noise *= np.repeat(np.tile([1.0, 0.2], 45), 1600)
    decoding = replace(recognizer.decoding, segment_seconds=3)
    text = LiveText(replace(recognizer, decoding=decoding))
    ends = [each.segment.end for each in text.push(noise) if isinstance(each, Finalised)]
    assert len(ends) >= 2 and max(np.diff([0, *ends])) <= 3.0


def test_silence_gives_nothing_and_is_forgotten(recognizer):
    text = LiveText(recognizer)
    for _ in range(100):
        assert [*text.push(np.zeros(16000, np.float32))] == []
    assert len(text._audio.samples) <= 2 * 16000
    assert [*text.finish()] == []


def test_what_was_no_speech_is_taken_back(recognizer, monkeypatch):
    texts = iter(["uh", "uh huh"])
    speech = np.array([False] * 8 + [True] * 2)

    def heard(_, samples, has_text):
        mask = np.zeros(-(-len(samples) // 640), bool)
        mask[:10] = speech
        return mask, next(texts, "uh huh" if mask[:10].any() else "")

    monkeypatch.setattr(LiveText, "_decoded", heard)
    monkeypatch.setattr(live, "decode", lambda loaded, given, options: [silence(given[0])])
    text = LiveText(recognizer)
    found = []
    for _ in range(6):
        found += text.push(np.zeros(6400, np.float32))
    assert [each.text for each in found][:3] == ["uh", "uh huh", ""]


def test_what_was_no_speech_is_taken_back_at_the_end_of_the_audio(recognizer, monkeypatch):
    monkeypatch.setattr(
        LiveText, "_decoded", lambda _, samples, has_text: (no_speech(len(samples)), "uh")
    )
    monkeypatch.setattr(live, "decode", lambda loaded, given, options: [silence(given[0])])
    text = LiveText(recognizer)
    assert [each.text for each in text.push(np.zeros(6400, np.float32))] == ["uh"]
    assert text.finish() == [Partial(0.4, "")]


def test_samples_of_16_bits():
    content = np.array([-32768, 0, 16384], "<i2").tobytes()
    assert pcm_samples(content).tolist() == [-1, 0, 0.5]


def test_a_model_without_ctc_and_a_rate_out_of_range_are_refused(tmp_path, recognizer):
    without = asr.load(write_tiny_model(tmp_path / "tiny", ctc=False))
    with pytest.raises(UserError, match="needs a model with a CTC head"):
        LiveText(without)
    with pytest.raises(UserError, match="a rate of 100 Hz"):
        LiveText(recognizer, 100)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, spoken):
    """Run `asr transcribe` with raw samples on stdin."""
    model = write_tiny_model(tmp_path / "tiny")
    content = (spoken * 32767).astype("<i2").tobytes()

    def call(*arguments: str, content: bytes = content) -> SimpleNamespace:
        stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content + b"x")))
        monkeypatch.setattr("sys.stdin", stdin)
        status = cli.main(["transcribe", "-m", str(model), "--beam", "1", *arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_file_in_place_of_samples_is_refused(run, spoken, kind):
    file = io.BytesIO()
    soundfile.write(file, spoken[:16000], 16000, format=kind)
    done = run("--live", "-", content=file.getvalue())
    assert (done.status, done.out) == (2, "")
    assert "stdin: a file of audio, wanted raw samples: ffmpeg" in done.err


def test_the_command_writes_a_line_for_each_segment(run):
    lines = run("--live", "-").out.splitlines()
    records = [json.loads(line) for line in run("--live", "-", "-f", "jsonl").out.splitlines()]
    finals = [each for each in records if each["type"] == "final"]
    assert [each["text"] for each in finals] == lines and len(lines) >= 3
    assert {"partial", "final"} == {each["type"] for each in records}
    words = finals[0]["words"]
    assert " ".join(word["word"] for word in words) == finals[0]["text"]
    assert finals[0]["start"] <= words[0]["start"] <= words[-1]["end"] <= finals[0]["end"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--live", "a.wav"], "--live reads raw samples from -; got a.wav"),
        (["--live"], "--live reads raw samples from -; got none"),
        (["--microphone", "-"], "--microphone takes no path; got -"),
        (["--live", "-", "-f", "srt"], "formats text and jsonl, got srt"),
        (["--live", "-", "-o", "x.txt"], "redirect it"),
        ([], "no recording"),
    ],
)
def test_other_paths_and_formats_are_refused(run, arguments, message):
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err and done.err.count("\n") == 1
