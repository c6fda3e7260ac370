"""The command line: output, errors and exit status."""

import io
import json
import os
import platform
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from praatio import textgrid
from tiny_model import write_tiny_model

import asr
from asr import cli
from asr.audio.read import read
from asr.commands.arguments import command_line
from asr.commands.output import replacing
from asr.corpora import read_manifest
from asr.inference.recognizer import Recognizer
from asr.render.read_subtitles import parse_srt, parse_vtt
from asr.render.transcripts import render

ROOT = Path(__file__).parents[1]
SPEECH = ROOT / "data" / "speech"
FLAC = SPEECH / "5683-32866-0027.flac"
TEXT = "a cold bright moon was shining with clear sharp lights and shadows"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command and return status, stdout and stderr."""

    def call(*arguments: object) -> SimpleNamespace:
        try:
            status = cli.main([str(each) for each in arguments])
        except SystemExit as left:
            status = left.code
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 1.5 seconds of speech."""
    path = tmp_path_factory.mktemp("clip") / "clip.wav"
    soundfile.write(path, read(FLAC).samples[8000:32000], 16000)
    return path


def make_bad(folder: Path, kind: str) -> Path:
    """Return a damaged recording."""
    path = folder / f"{kind}.wav"
    match kind:
        case "missing":
            pass
        case "text":
            path.write_text("not audio at all\n" * 50, "utf-8")
        case "empty":
            path.touch()
        case "short":
            soundfile.write(path, np.full(160, 0.1), 16000)
        case "cut":
            path = path.with_suffix(".flac")
            path.write_bytes(FLAC.read_bytes()[:40_000])
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "no such file"),
        ("text", "text, not audio"),
        ("empty", "the file is empty"),
        ("short", "0.010 s of audio is too short to transcribe; at least 0.1 s is needed"),
        ("cut", "ends early"),
    ],
)
def test_a_bad_recording_is_one_line_and_status_2(
    run, model: str, tmp_path: Path, kind: str, message: str
) -> None:
    path = make_bad(tmp_path, kind)
    done = run("transcribe", path, "-m", model)
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith(f"asr: error: {path}: ") and message in line


def test_one_bad_recording_does_not_stop_the_others(
    run, model: str, clip: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.wav").write_bytes(clip.read_bytes())
    make_bad(folder, "empty")
    (folder / "z.wav").write_bytes(clip.read_bytes())
    done = run("transcribe", tmp_path / "no.wav", folder, "-m", model)
    assert done.status == 2
    assert len(done.out.splitlines()) == 2 and len(set(done.out.splitlines())) == 1
    assert [line.split(": ")[2] for line in done.err.splitlines()] == [
        str(tmp_path / "no.wav"),
        str(folder / "empty.wav"),
    ]


def test_silence_noise_and_a_strange_recording(run, model: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    silence, noise, stereo = (tmp_path / f"{name}.wav" for name in ("silence", "noise", "stereo"))
    soundfile.write(silence, np.zeros(80_000), 16000)
    soundfile.write(noise, generator.normal(0, 0.1, 80_000), 16000)
    speech = read(FLAC).samples[8000:32000:2]
    soundfile.write(stereo, np.stack([speech, 0.3 * speech], 1), 8000)
    done = run("transcribe", silence, noise, stereo, "-m", model)
    assert done.status == 0
    assert done.err.splitlines() == [
        f"asr: warning: {each}: no speech found; the transcript is empty"
        for each in (silence, noise)
    ]
    streamed = run("transcribe", silence, "-f", "srt", "-m", model)
    assert (streamed.out, streamed.err) == ("", f"{done.err.splitlines()[0]}\n")
    lines = done.out.split("\n")
    assert lines[:2] == ["", ""] and lines[2] and lines[3] == ""


def test_stdin_is_a_recording(run, model: str, clip: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(clip.read_bytes())))
    piped = run("transcribe", "-", "-f", "jsonl", "-m", model)
    plain = run("transcribe", clip, "-f", "jsonl", "-m", model)
    assert piped.status == plain.status == 0
    assert json.loads(piped.out) == json.loads(plain.out) | {"path": "-"}


@pytest.fixture
def long_clip(tmp_path: Path) -> Path:
    """Return 26 seconds: speech, a gap, speech."""
    samples = read(FLAC).samples
    path = tmp_path / "long.wav"
    soundfile.write(path, np.concatenate([samples, np.zeros(20 * 16000), samples]), 16000)
    return path


@pytest.mark.parametrize("kind", ["text", "srt", "vtt", "ctm"])
def test_one_recording_is_written_as_it_comes(
    run, model: str, long_clip: Path, clip: Path, kind: str, monkeypatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(sys.stdout, "flush", lambda: written.append(1))
    monkeypatch.setattr("asr.inference.decoding.is_doubtful", lambda *_: False)
    done = run("transcribe", long_clip, "-f", kind, "-m", model, "--beam", 1)
    assert done.status == 0 and len(written) > 2
    whole = render(asr.load(model).transcribe(str(long_clip), beam=1), kind)
    assert done.out == whole


def test_what_came_before_the_damage_is_written_and_the_status_is_2(
    run, model: str, tmp_path: Path, monkeypatch
) -> None:
    path = tmp_path / "damaged.wav"
    samples = np.tile(read(FLAC).samples, 12)  # a minute
    samples[-1] = np.nan
    soundfile.write(path, samples, 16000, subtype="FLOAT")
    monkeypatch.setattr("asr.audio.read._BLOCK", 16_000)
    monkeypatch.setattr("asr.inference.stream.READ_AHEAD_BATCHES", 0)
    done = run("transcribe", path, "-m", model, "--beam", 1)
    assert done.status == 2 and done.out.strip() and done.out.endswith("\n")
    assert "not finite" in done.err and len(done.err.splitlines()) == 1
    done = run("transcribe", path, "-m", model, "--beam", 1, "-o", tmp_path / "o.txt")
    assert done.status == 2 and not (tmp_path / "o.txt").exists()


def test_what_is_not_english_is_warned_of(run, tmp_path: Path, clip: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny")
    (folder / "checksums.json").unlink()
    config = json.loads((folder / "config.json").read_text("utf-8"))
    weights = ("log_probability", "score", "agreement", "certainty", "length")
    for bias, warned in ((-2.0, True), (2.0, False)):
        config["plausibility"] = {"bias": bias} | dict.fromkeys(weights, 0.0)
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
        for kind in ("text", "jsonl"):
            done = run("transcribe", clip, "-m", folder, "-f", kind)
            line = f"asr: warning: {clip}: does not look like English speech: 0.12\n"
            assert (done.status, done.err) == (0, line if warned else "")
        (segment,) = json.loads(done.out)["segments"]
        assert segment["english"] == pytest.approx(0.1192 if warned else 0.8808, abs=1e-4)


def test_what_subtitles_leave_out_is_warned_of(run, model, clip, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("asr.inference.decoding.is_doubtful", lambda *_: True)
    out = tmp_path / "a.srt"
    for options in (["-f", "vtt"], ["-o", out]):
        done = run("transcribe", clip, "-m", model, *options)
        assert done.status == 0
        (line,) = done.err.splitlines()
        assert f"{clip}: low confidence, left out of the subtitles: 00:00:00.000-00:00:0" in line
    assert out.read_text("utf-8") == ""
    kept = run("transcribe", clip, "-m", model, "-f", "srt", "--keep-low-confidence")
    assert kept.err == "" and kept.out.startswith("1\n00:00:0")
    assert run("transcribe", clip, "-m", model).err == ""
    marked = run("transcribe", clip, "-m", model, "--mark-below", "1").out
    assert marked.count("?]") == len(marked.split()) > 0
    assert "marks words in text" in run(
        "transcribe", clip, "-m", model, "--mark-below", "1", "-f", "json"
    ).err  # fmt: skip


def test_jsonl_and_json_hold_all(run, model: str, clip: Path, tmp_path: Path) -> None:
    lines = run("transcribe", clip, FLAC, "-f", "jsonl", "-m", model).out.splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["path"] for record in records] == [str(clip), str(FLAC)]
    assert set(records[0]) == {
        *("path", "text", "duration", "log_probability", "stop_reason", "english"),
        *("segments", "words"),
    }
    (segment,) = records[0]["segments"]
    assert segment == {"start": 0, "end": records[0]["duration"]} | {
        name: records[0][name] for name in ("text", "log_probability", "stop_reason", "english")
    } | {"low_confidence": segment["stop_reason"] != "eos"}
    assert set(records[0]["words"][0]) == {"word", "start", "end", "confidence"}
    out = tmp_path / "all.json"
    assert run("transcribe", clip, FLAC, "-o", out, "-m", model).out == ""
    assert json.loads(out.read_text("utf-8")) == records


def test_the_ending_chooses_the_format(
    run, model: str, clip: Path, tmp_path: Path, monkeypatch
) -> None:
    # The text of an untrained model may be a loop, which subtitles leave out.
    monkeypatch.setattr("asr.inference.decoding.is_doubtful", lambda *_: False)
    outputs = {ending: tmp_path / f"x{ending}" for ending in (".txt", ".srt", ".vtt", ".TextGrid")}
    for path in outputs.values():
        assert run("transcribe", clip, "-o", path, "-m", model).status == 0
    text = outputs[".txt"].read_text("utf-8").strip()
    for parse, ending in ((parse_srt, ".srt"), (parse_vtt, ".vtt")):
        cues = parse(outputs[ending].read_text("utf-8"))
        assert " ".join(cue.text.replace("\n", " ") for cue in cues) == text
    grid = textgrid.openTextgrid(str(outputs[".TextGrid"]), includeEmptyIntervals=False)
    assert [each.label for each in grid.getTier("words").entries] == text.split()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("x.TextGrid", "x.srt", "x.txt", "x.vtt")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "nowhere/x.txt"], "nowhere/x.txt: cannot be written: there is no folder nowhere"),
        (["-o", "folder.txt"], "folder.txt: a folder"),
        (["-o", "subs7"], "subs7: no ending; wanted .txt .jsonl"),
        (["-o", "subs7"], "; for a folder write subs7/"),
        (["-o", "x.doc"], "unknown format '.doc'; wanted .txt .jsonl"),
        (["more.wav", "-o", "x.srt"], "srt holds one recording, got 2"),
        (["-o", "x.txt", "-o", "./x.txt"], "x.txt: given twice as an output"),
    ],
)
def test_what_cannot_be_written_is_told_before_any_work(
    run, clip: Path, tmp_path: Path, monkeypatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.txt").mkdir()
    Path("more.wav").write_bytes(clip.read_bytes())
    done = run("transcribe", clip, *arguments, "-m", "a model that is not there")
    assert (done.status, done.out) == (2, "")
    assert message in done.err and len(done.err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.txt", "more.wav"]


def test_an_older_output_outlives_a_failure(run, model: str, clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    out.write_text("older\n", "utf-8")
    out.chmod(0o600)
    link = tmp_path / "link.txt"
    link.symlink_to(out)
    assert run("transcribe", make_bad(tmp_path, "text"), "-o", link, "-m", model).status == 2
    assert out.read_text("utf-8") == "older\n"
    assert len(list(tmp_path.iterdir())) == 3  # the two and the recording
    assert run("transcribe", clip, "-o", link, "-m", model).status == 0
    assert link.is_symlink() and out.read_text("utf-8") != "older\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 3
    assert run("transcribe", clip, "-f", "text", "-o", "/dev/null", "-m", model).status == 0
    assert Path("/dev/null").is_char_device()


def test_two_writers_of_a_file_do_not_share_a_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with replacing(path) as one, replacing(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sing"], "invalid choice: 'sing'"),
        (["transcribe"], "no recording; wanted files, folders or -"),
        (["transcribe", "a", "--beam", "0"], "--beam: got '0', wanted a whole number"),
        (["transcribe", "a", "--ctc-weight", "nan"], "got 'nan', wanted a number from 0 to 1"),
        (["transcribe", "a", "-f", "doc"], "invalid choice: 'doc'"),
        (["transcribe", "a", "--batch-seconds", "0"], "got '0', wanted a number above 0"),
        (["evaluate", "a", "--speed", "3"], "wanted a number from 0.5 to 2"),
        (["trancribe", "a"], "did you mean transcribe? (see asr --help)"),
        (["transcribe", "a", "--hotword", "b"], "did you mean --hotwords? (see asr transcribe"),
        (["transcribe", "a", "--otput", "b"], "did you mean --output?"),
        (["transcribe", "a", "-f", "jsnol"], "did you mean json"),
        (["transcribe", "a", "--hotwords", "my names.txt"], "wanted a file that exists, or words"),
        (["prepare"], "required: WHAT, one of librispeech, folder, table, "),
        (["align"], "required: AUDIO (see asr align --help)"),
        (["translate", "a", "--sing", "b"], "arguments: --sing b (see asr translate --help)"),
        (["prepare", "check", "a", "--loud"], "arguments: --loud (see asr prepare check --help)"),
    ],
)
def test_wrong_arguments_are_one_line(run, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("asr: error: ") and message in line and "--help" in line


@pytest.mark.parametrize(
    "command",
    ["transcribe", "align", "train", "evaluate", "score", "translate", "prepare"]
    + [f"prepare {kind}" for kind in ("librispeech", "folder", "pseudo-labels", "check")],
)
def test_every_command_explains_itself(run, command: str) -> None:
    done = run(*command.split(), "--help")
    assert done.status == 0
    assert f"examples:\n  asr {command}" in done.out
    assert f"asr {asr.__version__}\n" == run("--version").out


def test_models_that_are_none(run, clip: Path, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        done = run("transcribe", clip, "-m", place)
        assert done.status == 2 and f"asr: error: {place}: not a model folder" in done.err


def test_align_writes_all_its_formats(run, model: str, tmp_path: Path) -> None:
    endings = ("png", "json", "TextGrid", "srt", "vtt", "ctm")
    outputs = [tmp_path / f"x.{ending}" for ending in endings]
    options = [each for path in outputs for each in ("-o", path)]
    done = run("align", FLAC, "--text", TEXT.title() + "!", *options, "-m", model)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert outputs[0].read_bytes().startswith(b"\x89PNG")
    record = json.loads(outputs[1].read_text("utf-8"))
    assert record["text"] == TEXT
    assert "".join(each["character"] for each in record["characters"]) == TEXT
    (segment,) = record["segments"]
    assert np.allclose(np.sum(segment["weights"], axis=1), 1, atol=0.01)
    grid = textgrid.openTextgrid(str(outputs[2]), includeEmptyIntervals=False)
    words, characters = (grid.getTier(name).entries for name in ("words", "characters"))
    assert [each.label for each in words] == TEXT.split()
    assert [each.label for each in characters] == [*TEXT.replace(" ", "")]
    assert [line.split()[4] for line in outputs[5].read_text().splitlines()] == TEXT.split()
    assert len(list(tmp_path.iterdir())) == len(endings)


def test_align_prints_a_table(run, model: str) -> None:
    done = run("align", FLAC, "--text", TEXT, "-m", model)
    assert [line.split()[-1] for line in done.out.splitlines()[2:]] == TEXT.split()


def test_align_takes_the_text_from_a_file(run, model: str, tmp_path: Path) -> None:
    first, rest = TEXT[:20], TEXT[20:]
    file = tmp_path / "said.txt"
    file.write_text(f"\ufeff{first}\n\n{rest}\r\n", "utf-8")
    done = run("align", FLAC, "--text", file, "-m", model)
    assert done == run("align", FLAC, "--text", f"{first} {rest}", "-m", model)
    done = run("align", FLAC, "--text", tmp_path / "other.TXT", "-m", model)
    assert (done.status, done.out) == (2, "")
    assert "other.TXT: no such file; wanted a text, or a text file of it" in done.err
    file.write_text(f"“{TEXT}”", "cp1252")
    done = run("align", FLAC, "--text", file, "--encoding", "cp1252", "-m", model)
    assert done == run("align", FLAC, "--text", TEXT, "-m", model)


def test_what_is_read_is_not_replaced(run, model: str, clip: Path, tmp_path: Path) -> None:
    text, audio = tmp_path / "said.txt", tmp_path / "clip.wav"
    text.write_text(TEXT, "utf-8")
    audio.write_bytes(clip.read_bytes())
    manifest, table = tmp_path / "m.jsonl", tmp_path / "t.csv"
    manifest.write_text('{"audio": "clip.wav", "text": "good day"}\n')
    table.write_text("audio,text\nclip.wav,good day\n")
    for arguments, kept in (
        (("align", FLAC, "--text", text, "-o", text), text),
        (("transcribe", audio, "-f", "text", "-o", audio), audio),
        (("transcribe", tmp_path, "-f", "text", "-o", audio), audio),
        (("evaluate", manifest, "-o", manifest), manifest),
        (("prepare", "table", table, table), table),
        (("prepare", "table", table, tmp_path / "new.jsonl", "--dev", table), table),
    ):
        before = kept.read_bytes()
        done = run(*arguments, *(["-m", model] if arguments[0] != "prepare" else []))
        assert (done.status, done.out, kept.read_bytes()) == (2, "", before)
        assert f"{kept}: an input, which would be replaced; name another output" in done.err


def test_one_language_is_translated_to(run) -> None:
    done = run("translate", "--to", "de", "--to", "zh", "Go!")
    assert done.status == 2 and "argument --to: given twice; wanted once" in done.err


def test_align_of_silence_draws_an_empty_picture(run, model: str, tmp_path: Path) -> None:
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(16000), 16000)
    picture = tmp_path / "x.png"
    assert run("align", silence, "-o", picture, "-m", model).status == 0
    assert picture.stat().st_size > 0
    done = run("align", silence, "--text", "one", "-o", picture, "-m", model)
    assert done.status == 2 and "no speech" in done.err


def test_align_refuses_a_long_picture_before_it_transcribes(
    run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = tmp_path / "long.wav"
    soundfile.write(recording, np.zeros(121 * 8000), 8000)
    monkeypatch.setattr(Recognizer, "load", None)
    done = run("align", recording, "-o", tmp_path / "x.json", "-o", tmp_path / "x.png")
    assert (done.status, done.out) == (2, "")
    assert f"asr: error: {recording}: 121 s of audio; a picture shows at most 120 s" in done.err
    assert [*tmp_path.iterdir()] == [recording]


def test_evaluate_reports_and_its_hypotheses_score_the_same(
    run, model: str, tmp_path: Path
) -> None:
    manifest, hypotheses = SPEECH / "manifest.jsonl", tmp_path / "h.jsonl"
    chosen = tmp_path / "ids.txt"
    chosen.write_text("5683-32866-0027\n672-122797-0000\n", "utf-8")
    recordings = [SPEECH / "5683-32866-0027.flac", SPEECH / "672-122797-0000.opus"]
    options = ["--ids", chosen, "-m", model, "--beam", "1", "--ctc-weight", "0"]
    done = run("evaluate", manifest, *options, "--attention", "--output", hypotheses)
    assert done.status == 0
    wanted = ("WER", "CER", "audio seconds a second", "CPU-seconds", "stopped by", "REF")
    for part in (*wanted, "word confidence"):
        assert part in done.out
    figures = json.loads(run("evaluate", manifest, *options, "--json").out)
    assert figures["failed"] == 0 and sum(figures["stop_reasons"].values()) == 2
    assert figures["cost"]["audio_seconds"] == pytest.approx(4.755 + 4.07)
    words = json.loads(run("transcribe", *recordings, "-m", model, *options[4:], "-f", "json").out)
    means = [each["confidence"] for record in words for each in record["words"]]
    assert figures["confidence"]["mean"] == pytest.approx(sum(means) / len(means), abs=1e-4)
    assert figures["confidence"]["expected_calibration_error"] > 0
    references = tmp_path / "r.jsonl"
    lines = manifest.read_text("utf-8").splitlines()
    kept = [line for line in lines if "5683-" in line or "672-" in line]
    references.write_text("\n".join(kept), "utf-8")
    scored = json.loads(run("score", references, hypotheses, "--normalize", "--json").out)
    assert (scored["wer"], scored["cer"]) == (figures["wer"], figures["cer"])


def test_evaluate_plays_faster_and_counts_what_failed(run, model: str, tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    rows = [
        {"audio": str(FLAC), "text": TEXT, "duration": 4.755},
        {"audio": "no.wav", "text": "one", "duration": 1.0},
    ]
    manifest.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    options = ["-m", model, "--beam", "1", "--ctc-weight", "0", "--speed", "1.25", "--json"]
    done = run("evaluate", manifest, *options)
    assert done.status == 2 and f"{manifest}:1: audio outside of {tmp_path}" in done.err
    options += ["--audio-in", "/"]
    done = run("evaluate", manifest, *options)
    assert done.status == 2 and len(done.err.splitlines()) == 1 and "no such file" in done.err
    figures = json.loads(done.out)
    assert figures["failed"] == 1
    assert figures["cost"]["audio_seconds"] == pytest.approx(4.755 / 1.25, abs=0.01)
    assert run("evaluate", manifest, *options, "--limit", "1").status == 0


def test_score_draws_the_worst(run, tmp_path: Path) -> None:
    reference, hypothesis = tmp_path / "r.txt", tmp_path / "h.txt"
    reference.write_text("one two three\nFour, five!\n", "utf-8")
    hypothesis.write_text("one too three\nfour five\n", "utf-8")
    done = run("score", reference, hypothesis)
    assert "3 errors in 5 words" in done.out and not done.err
    done = run("score", reference, hypothesis, "--normalize")
    assert (
        done.status == 0 and "1 error in 5 words" in done.out and "HYP: one too three" in done.out
    )
    hypothesis.write_text("one\n", "utf-8")
    done = run("score", reference, hypothesis)
    assert done.status == 2 and len(done.err.splitlines()) == 1


def test_score_warns_of_capitals(run, tmp_path: Path) -> None:
    reference, hypothesis = tmp_path / "r.txt", tmp_path / "h.txt"
    reference.write_text("ONE TWO THREE\nFour five\n", "utf-8")
    hypothesis.write_text("one too three\nFour five\n", "utf-8")
    done = run("score", reference, hypothesis)
    assert "3 errors in 5 words" in done.out and "--normalize" in done.err
    assert not run("score", reference, hypothesis, "--normalize").err


def test_speech_without_a_text_becomes_a_corpus(run, clip: Path, tmp_path: Path) -> None:
    texts, corpus = tmp_path / "all.jsonl", tmp_path / "corpus"
    assert run("transcribe", clip, FLAC, "-o", texts).status == 0
    done = run("prepare", "pseudo-labels", texts, corpus, "--keep", 1)
    manifest = corpus / "manifest.jsonl"
    assert done.status == 0 and done.out.startswith(f"{manifest}: 2 utterances, 6 s")
    said = [json.loads(line)["text"] for line in texts.read_text("utf-8").splitlines()]
    assert [json.loads(line)["text"] for line in manifest.read_text("utf-8").splitlines()] == said
    assert run("prepare", "check", manifest).status == 0
    done = run("prepare", "pseudo-labels", texts, corpus, "--keep", 0)
    assert done.status == 2 and "wanted above 0" in done.err


def test_prepare_folder_then_check(run, clip: Path, tmp_path: Path) -> None:
    folder, manifest = tmp_path / "own", tmp_path / "own.jsonl"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.wav").write_bytes(clip.read_bytes())
    (folder / "one.txt").write_text("Good morning!", "utf-8")
    done = run("prepare", "folder", folder, manifest)
    assert done.status == 0 and "1 utterances" in done.out
    assert "no .txt file next to it" in done.err and "two.wav" in done.err
    assert [each.text for each in read_manifest(manifest)] == ["good morning"]
    assert run("prepare", "check", manifest).status == 0
    (folder / "one.wav").unlink()
    done = run("prepare", "check", manifest)
    assert done.status == 2 and f"{manifest}:1: no such audio file" in done.out


def test_a_manifest_of_audio_elsewhere_is_read_where_that_is_allowed(
    run, clip: Path, tmp_path: Path
) -> None:
    folder, manifest = tmp_path / "own", tmp_path / "lists" / "own.jsonl"
    folder.mkdir()
    (folder / "one.wav").write_bytes(clip.read_bytes())
    (folder / "one.txt").write_text("Good morning!", "utf-8")
    done = run("prepare", "folder", folder, manifest)
    assert done.status == 0 and f"want --audio-in {folder}" in done.err
    done = run("prepare", "check", manifest)
    assert done.status == 2 and f"{manifest}:1: audio outside of {manifest.parent}" in done.out
    assert run("prepare", "check", manifest, "--audio-in", folder).status == 0
    done = run("prepare", "shards", manifest, tmp_path / "shards")
    assert done.status == 2 and "audio outside of" in done.err
    assert run("prepare", "shards", manifest, tmp_path / "shards", "--audio-in", folder).status == 0
    assert "--audio-in" not in run("prepare", "folder", folder, tmp_path / "own.jsonl").err


def test_mistakes_of_the_other_commands_are_one_line(run, model: str, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("[data]\ntrain = []\ndev = 'd.jsonl'\n", "utf-8")
    for arguments, message in [
        (["train", tmp_path / "no.toml", tmp_path / "r"], "cannot read the config"),
        (["train", config, tmp_path / "r", "--set", "training.stps=1"], "did you mean steps"),
        (["evaluate", tmp_path / "no.jsonl", "-m", model], "cannot be read"),
        (["prepare", "librispeech", tmp_path, tmp_path], "no subset of LibriSpeech"),
        (["translate", "hello", "-m", model], "a model for speech"),
        (["translate", "a", "b", "--heat-map", "x.png", "-m", model], "one text, got 2"),
    ]:
        done = run(*arguments)
        assert (done.status, done.out) == (2, "")
        assert message in done.err and len(done.err.splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_an_interruption_is_one_line(run, monkeypatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli._COMMANDS, "score", interrupt)
    done = run("score", "a", "b")
    assert (done.status, done.out, done.err) == (130, "", "asr: interrupted\n")


def test_an_interruption_of_the_import_is_one_line(monkeypatch, capsys) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    from asr.__main__ import main

    monkeypatch.setitem(sys.modules, "asr.cli", Interrupted())
    assert main() == 130
    assert capsys.readouterr() == ("", "asr: interrupted\n")


@pytest.mark.parametrize(("target", "status", "lines"), [("closed", 141, 0), ("/dev/full", 2, 1)])
def test_output_that_cannot_be_taken(tmp_path: Path, target: str, status: int, lines: int) -> None:
    if target == "closed":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(target, os.O_WRONLY)
    text = tmp_path / "t.txt"
    text.write_text("one\n" * 3, "utf-8")
    command = [sys.executable, "-m", "asr", "score", str(text), str(text)]
    # Buffered, as for users: the last write must not fail a second time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    os.close(writer)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == lines


COUNT_THREADS = """
import sys, threadpoolctl
from asr.cli import main
status = main(sys.argv[1:])
import torch
pools = [each["num_threads"] for each in threadpoolctl.threadpool_info()]
print(sorted({*pools, torch.get_num_threads()}), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize(("given", "wanted"), [(None, "passive"), ("active", "active")])
def test_idle_threads_of_a_training_sleep(given, wanted, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    assert cli.main(["train", str(tmp_path / "none.toml"), str(tmp_path / "run")]) == 2
    assert os.environ["OMP_WAIT_POLICY"] == wanted
    if given is None:
        del os.environ["OMP_WAIT_POLICY"]


@pytest.mark.parametrize(("told", "wanted"), [(None, "[1]"), ("2", "[2]")])
def test_commands_work_in_one_thread_unless_told_otherwise(model: str, told, wanted) -> None:
    pytest.importorskip("threadpoolctl")
    environment = {name: each for name, each in os.environ.items() if "_NUM_THREADS" not in name}
    if told is not None:
        environment["OMP_NUM_THREADS"] = told
    arguments = ["transcribe", FLAC, "-m", model, "--beam", "1"]
    command = [sys.executable, "-c", COUNT_THREADS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == wanted


FREED = """
import sys
from asr.cli import _limit_resources
_limit_resources()
import numpy as np

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

larger = np.ones(4_000_000)
del larger  # of 32 MB: without a limit, arrays up to this size would now be kept
before = resident()
large, small = np.ones(1_000_000), [np.ones(1000) for _ in range(50)]
del large
print(resident() - before)
"""


ASKED_AGAIN = """
import resource
from asr.cli import _limit_resources
_limit_resources()
import numpy as np

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def use():
    several = [np.ones(250_000) for _ in range(3)]

use()
before = faults()
for _ in range(20):
    use()
print(faults() - before)
"""

needs_glibc = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc", reason="needs glibc"
)


@needs_glibc
def test_arrays_of_a_step_are_not_asked_for_again():
    """6 MB used 20 times; given back each time, they are 29,000 page faults."""
    command = [sys.executable, "-c", ASKED_AGAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2_000


@needs_glibc
def test_memory_of_freed_arrays_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4_000_000


def parsers(parser):
    (commands,) = (each for each in parser._actions if isinstance(each.choices, dict))
    return commands.choices


def test_the_parser_of_one_command_is_the_same_as_among_all():
    whole = parsers(command_line())
    assert len(whole) == 13
    for name, wanted in whole.items():
        ((only, found),) = parsers(command_line(name)).items()
        assert (only, found.format_help()) == (name, wanted.format_help())
    for first in ("", "nonsense", "--help"):
        assert parsers(command_line(first)).keys() == whole.keys()
