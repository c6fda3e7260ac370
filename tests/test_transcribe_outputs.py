"""Outputs of `asr transcribe`: several files, folders, alternatives, and favoured words."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile
from tiny_model import write_tiny_model

from asr import cli
from asr.audio.read import read
from asr.commands.arguments import command_line
from asr.inference.recognizer import Recognizer

FLAC = Path(__file__).parents[1] / "data" / "speech" / "5683-32866-0027.flac"
FAST = ("--beam", 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with day/one.wav, two.wav, and a file that is no audio."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "day").mkdir()
    samples = read(FLAC).samples
    soundfile.write(folder / "day/one.wav", samples[8000:20000], 16000)
    soundfile.write(folder / "two.wav", samples[30000:42000], 16000)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], model: str):
    """Run the command with the model and return status, stdout and stderr."""

    def call(*arguments: object) -> SimpleNamespace:
        status = cli.main(["transcribe", "-m", model, *(str(each) for each in arguments)])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


def test_a_folder_gets_a_file_for_each_recording(run, recordings: Path, tmp_path: Path) -> None:
    out, lines = tmp_path / "subtitles", tmp_path / "all.txt"
    assert run(recordings, *FAST, "-f", "text", "-o", f"{out}/", "-o", lines).out == ""
    files = sorted(each.relative_to(out).as_posix() for each in out.rglob("*") if each.is_file())
    assert files == ["day/one.txt", "two.txt"]
    assert "".join((out / each).read_text("utf-8") for each in files) == lines.read_text("utf-8")


def test_formats_may_be_repeated_and_named_as_endings(
    run, recordings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "subtitles"
    assert run(recordings, *FAST, "-f", "SRT", "-f", "txt", "-o", f"{out}/").status == 0
    files = sorted(each.relative_to(out).as_posix() for each in out.rglob("*") if each.is_file())
    assert files == ["day/one.srt", "day/one.txt", "two.srt", "two.txt"]
    done = run(recordings / "two.wav", *FAST, "-f", "srt", "-f", "vtt")
    assert (done.status, done.out) == (2, "")
    assert "got --format srt and vtt; several need a folder: -o FOLDER/" in done.err


def test_hot_words_of_all_lists_are_favoured(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("# names\nFuchs, Ithaca\nLeigh Hunt\n", "utf-8")
    given = command_line().parse_args(
        ["transcribe", "a", "--hotwords", str(names), "--hotwords", "Quilter, Dr. Who"]
    )
    assert given.hotwords == ["Fuchs", "Ithaca", "Leigh Hunt", "Quilter", "Dr. Who"]


def test_a_list_of_hot_words_may_be_longer_than_a_file_name() -> None:
    names = [f"name{number}" for number in range(100)]
    given = command_line().parse_args(["transcribe", "a", "--hotwords", ", ".join(names)])
    assert given.hotwords == names


def test_a_recording_that_fails_has_no_file(run, recordings: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.wav"
    bad.write_text("not audio\n" * 50, "utf-8")
    out = tmp_path / "out"
    out.mkdir()
    assert run(bad, recordings / "two.wav", *FAST, "-f", "text", "-o", out).status == 2
    assert [each.name for each in out.iterdir()] == ["two.txt"]


def test_no_folder_is_left_behind_where_nothing_is_transcribed(run, tmp_path: Path) -> None:
    empty, bad = tmp_path / "empty", tmp_path / "bad.wav"
    empty.mkdir()
    bad.write_text("not audio\n" * 50, "utf-8")
    for recording in (empty, bad):
        assert run(recording, "-f", "srt", "-o", f"{tmp_path}/out/").status == 2
        assert not (tmp_path / "out").exists()


def test_one_recording_goes_to_several_files(run, recordings: Path, tmp_path: Path) -> None:
    clip, names = recordings / "two.wav", ("a.txt", "a.json", "a.ass", "a.ctm")
    outputs = [part for name in names for part in ("-o", tmp_path / name)]
    assert run(clip, *FAST, *outputs).out == ""
    text = run(clip, *FAST).out
    assert (tmp_path / "a.txt").read_text("utf-8") == text
    (record,) = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert f"{record['text']}\n" == text
    assert "[Events]" in (tmp_path / "a.ass").read_text("utf-8")


def test_alternatives_leave_the_transcript_as_it_is(run, recordings: Path, model: str) -> None:
    clip = recordings / "two.wav"
    plain = Recognizer.load(model).configured(beam=4)
    several = plain.configured(n_best=3)
    one, other = plain.transcribe(str(clip)), several.transcribe(str(clip))
    assert one.text == other.text and one.words == other.words
    (segment,) = other.segments
    first, *others = segment.alternatives
    assert first.text == other.text and first.score == segment.score
    assert len(others) == 2 and others == sorted(others, key=lambda each: -each.score)
    assert len({each.text for each in segment.alternatives}) == 3
    assert one.segments[0].alternatives == () and "alternatives" not in one.record()["segments"][0]
    lines = run(clip, "--beam", 4, "--n-best", 3).out.splitlines()
    assert [line.split("\t")[2] for line in lines] == [each.text for each in segment.alternatives]
    assert [line.split("\t")[0] for line in lines] == ["1", "2", "3"]
    record = json.loads(run(clip, "--beam", 4, "--n-best", 3, "-f", "jsonl").out)
    assert len(record["segments"][0]["alternatives"]) == 3


def test_favoured_words_are_written_and_their_bonus_is_not_in_the_score(
    run, recordings: Path, model: str, tmp_path: Path
) -> None:
    clip = recordings / "two.wav"
    recognizer = Recognizer.load(model).configured(beam=6)
    before = recognizer.transcribe(str(clip))
    word = "q" * 3
    assert word not in before.text.split()
    favouring = recognizer.configured(hotwords=[word.upper()], hotword_weight=20.0)
    after = favouring.transcribe(str(clip))
    assert word in after.text.split()
    (tmp_path / "words.txt").write_text(f"# names\n{word}\n", "utf-8")
    options = (clip, "--beam", 6, "--hotword-weight", 20)
    assert run(*options, "--hotwords", tmp_path / "words.txt").out == f"{after.text}\n"
    assert run(*options, "--hotwords", f"{word}, {word}").out == f"{after.text}\n"
    none = favouring.configured(hotwords=[]).transcribe(str(clip))
    assert none.text == before.text
    same = recognizer.configured(hotwords=before.text.split(), hotword_weight=5.0)
    (segment,) = same.transcribe(str(clip)).segments
    assert segment.text == before.text
    assert segment.score == pytest.approx(before.segments[0].score, abs=1e-3)


def test_mistakes_are_one_line(run, recordings: Path, tmp_path: Path) -> None:
    clip = recordings / "two.wav"
    (tmp_path / "two.flac").write_bytes(FLAC.read_bytes())
    notes = tmp_path / "notes.md"
    notes.write_text("not audio\n" * 50, "utf-8")
    for arguments, message in [
        ([tmp_path / "none/"], "none: no such file or folder"),
        ([notes], "notes.md: text, not audio\n"),
        ([clip, "-o", tmp_path], "a folder; name the format of its files with -f"),
        ([clip, "-f", "srt", "-o", "a.srt", "-o", "b.srt"], "--format and several outputs"),
        ([clip, "-f", "srt", "-o", "-"], "got -o -, which is no file; without -o the output goes"),
        ([clip, "-f", "srt", "--n-best", 2], "srt holds no alternatives"),
        (
            [clip, "--beam", 1, "--n-best", 2],
            "error: alternatives need a beam search; got a beam of 1",
        ),
        (
            [clip, "--beam", 1, "--hotwords", "a"],
            "error: hot words need a beam search; got a beam of 1",
        ),
        ([clip, "--hotwords", "a,日"], "nothing is left of the hot word '日'"),
        (
            [clip, tmp_path / "two.flac", "-f", "srt", "-o", f"{tmp_path}/"],
            "would both be written to",
        ),
    ]:
        done = run(*arguments)
        assert (done.status, done.out) == (2, "")
        assert message in done.err and len(done.err.splitlines()) == 1
