"""`asr translate`: texts, alignments, attention of words, and subtitles with their times."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from asr import cli
from asr.inference.translator import Translator
from asr.models.folder import save_folder
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import build_translation_model
from asr.render.ass import Script
from asr.render.read_subtitles import parse_srt, parse_vtt
from asr.tables import to_table
from asr.text.vocabulary import Vocabulary

SOURCE = Vocabulary.words(["go . i lost . i'm home !"], least=1)
TARGET = Vocabulary.words(["va ! j'ai perdu . je suis chez moi ."], least=1)
SRT = """1
00:00:01,000 --> 00:00:02,500
<i>I lost.
Go!</i>

2
00:00:03,000 --> 00:00:03,001
- I'm home!
- Go.

3
00:00:04,000 --> 00:00:05,000
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a random model, whose output depends on the text."""
    settings = TranslationSettings(
        encoder=TextualSettings(embedding_size=8, state_size=8),
        attention=AttentionSettings(size=8),
        decoder=DecoderSettings(embedding_size=8, state_size=12, readout_size=8),
    )
    torch.manual_seed(3)
    made = build_translation_model(settings, len(SOURCE), len(TARGET))
    for parameter in made.parameters():
        parameter.data *= 3
    folder = tmp_path_factory.mktemp("model")
    save_folder(
        folder,
        task="translation",
        model=to_table(settings),
        vocabularies={"source": SOURCE.to_json(), "target": TARGET.to_json()},
        state=made.state_dict(),
        notes={},
    )
    return str(folder)


@pytest.fixture(scope="module")
def said(model: str) -> dict[str, str]:
    """Return the model's translations of the sentences used here."""
    texts = ["I lost.", "Go!", "I'm home!", "Go."]
    found = Translator.load(model).translate(texts)
    return {text: each.text for text, each in zip(texts, found, strict=True)}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], model: str):
    """Run the command with the model and return status, stdout and stderr."""

    def call(*arguments: object) -> SimpleNamespace:
        status = cli.main(["translate", "-m", model, *(str(each) for each in arguments)])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)


def test_texts_files_and_stdin_read_alike(
    run, said: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = f"{said['I lost.']}\n{said['Go!']}\n"
    assert run("I lost.", "Go!").out == expected
    (tmp_path / "lines.txt").write_text("\ufeffI lost.\nGo!\n", "utf-8")
    assert run("--file", tmp_path / "lines.txt").out == expected
    feed(monkeypatch, "I lost.\nGo!")
    assert run().out == expected


def test_texts_that_the_model_does_not_know_are_a_warning(run) -> None:
    assert run("I lost.", "Go!").err == ""
    done = run("I lost.", "東京 大阪 lost", "京都")
    assert done.status == 0
    assert "does not know the language of 2 of 3 texts, such as '東京 大阪 lost'" in done.err


def test_each_word_says_what_it_looked_at(run, model: str) -> None:
    found = Translator.load(model).translate("I lost.")
    lines = run("--why", "I lost.").out.splitlines()
    assert lines[0] == found.text and lines[1].split() == ["word", "attention"]
    rows = lines[3:-1]
    assert [row.split()[0] for row in rows] == found.text.split()
    best = int(found.weights[0].argmax())
    assert f"{found.words.source[best]} {found.weights[0, best]:.0%}" in rows[0]


def test_alignments_in_pharaoh_form_and_in_json(run) -> None:
    links = run("-f", "pharaoh", "I lost.", "Go!").out.splitlines()
    records = [json.loads(line) for line in run("-f", "jsonl", "I lost.", "Go!").out.splitlines()]
    assert [record["alignment"] for record in records] == links
    for record in records:
        for link in record["alignment"].split():
            source, target = map(int, link.split("-"))
            looked = record["links"][target]
            assert looked[0]["word"] == source < len(record["source_words"]) - 1
        assert record["text"].split() == record["target_words"][:-1]


def test_an_argument_that_is_not_utf_8_is_one_line(run) -> None:
    found = run("Hello \udcff there")
    assert found.status == 2 and found.out == ""
    assert found.err == "asr: error: got a text with '\\udcff', half a character; wanted UTF-8\n"


@pytest.mark.parametrize("by", ["file", "stdin"])
def test_subtitles_keep_their_times(
    run, said: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "file":
        (tmp_path / "talk.SRT").write_text(SRT, "utf-8")
        arguments = ["--file", tmp_path / "talk.SRT"]
    else:
        feed(monkeypatch, SRT)
        arguments = ["-f", "srt"]
    cues = parse_srt(run(*arguments).out)
    assert [cue[1:3] for cue in cues] == [cue[1:3] for cue in parse_srt(SRT)]
    assert cues[0].text.split() == f"<i>{said['I lost.']} {said['Go!']}</i>".split()
    assert cues[1].text.split() == ["-", *said["I'm home!"].split(), "-", *said["Go."].split()]
    assert cues[2].text == ""


def test_subtitles_in_other_forms(run, tmp_path: Path) -> None:
    file = tmp_path / "talk.vtt"
    file.write_text("WEBVTT\n\n00:01.000 --> 00:02.500 align:left\nI lost.\n", "utf-8")
    (cue,) = parse_vtt(run("--file", file).out)
    assert (cue.start, cue.end) == (1.0, 2.5)
    assert parse_srt(run("--file", file, "-f", "srt").out) == [cue]
    text = run("--file", file, "-f", "text").out
    assert text.split() == cue.text.split()
    record = json.loads(run("--file", file, "-f", "jsonl").out)
    assert record == {"start": 1.0, "end": 2.5, "source": "I lost.", "text": text.strip()}


def test_sentences_are_parted_unless_the_text_is_one(run, model: str, said: dict[str, str]) -> None:
    assert run("I lost. Go!").out == f"{said['I lost.']} {said['Go!']}\n"
    whole = Translator.load(model).translate("I lost. Go!", whole=True).text
    assert run("--whole", "I lost. Go!").out == f"{whole}\n" != run("I lost. Go!").out


def test_a_sentence_over_cues_is_translated_whole(run, model: str, tmp_path: Path) -> None:
    first, second = "1\n00:00:01,000 --> 00:00:02,000\nI\n", "2\n00:00:02,000 --> 00:00:03,000\n"
    (tmp_path / "talk.srt").write_text(f"{first}\n{second}lost home.\n", "utf-8")
    cues = parse_srt(run("--file", tmp_path / "talk.srt").out)
    together = Translator.load(model).translate("I lost home.").text
    assert " ".join(cue.text for cue in cues).split() == together.split()


def test_models_vote_and_the_search_can_be_told(run, model: str, said: dict[str, str]) -> None:
    assert (
        run("-m", model, "Go!").out == f"{said['Go!']}\n"
    )  # an ensemble of equal models equals one
    by_mean = run("--beam", 4, "Go!", "I lost.").out
    assert run("--beam", 4, "--length-penalty", 0, "Go!", "I lost.").out != by_mean


def test_the_package_has_a_model_for_each_language(
    model: str, said: dict[str, str], tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("asr.inference.translator.SHIPPED", {"fr": tmp_path, "de": Path(model)})
    assert cli.main(["translate", "--to", "de", "Go!"]) == 0
    assert capsys.readouterr().out == f"{said['Go!']}\n"
    assert cli.main(["translate", "Go!"]) == 2 and "to 'fr'" in capsys.readouterr().err


ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, Bold
Style: Sign,Arial,33,0

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:00.00,0:00:01.00,Sign,,0,0,0,,Go!
Dialogue: 0,0:00:01.00,0:00:02.50,Sign,Ann,0,0,0,,{\\pos(10,20)}I lost.\\NGo!
Dialogue: 0,0:00:03.00,0:00:04.50,Sign,,0,0,0,,{\\p1}m 0 0 l 100 0 100 100{\\p0}
"""


def test_scripts_keep_styles_comments_and_drawings(run, said, tmp_path: Path) -> None:
    file = tmp_path / "talk.ass"
    file.write_text(ASS, "utf-8")
    lines = run(file).out.splitlines()
    assert any(line.startswith("Style: Sign,Arial,33") for line in lines)
    comment, dialogue, drawing = lines[-3:]
    assert comment.endswith(",,Go!") and drawing == ASS.splitlines()[-1]
    text = " ".join(dialogue.partition("{\\pos(10,20)}")[2].replace("\\N", " ").split())
    assert text == f"{said['I lost.']} {said['Go!']}"
    assert dialogue.startswith("Dialogue: 0,0:00:01.00,0:00:02.50,Sign,Ann,")


def test_scripts_become_vtt_with_signs_escaped() -> None:
    script = Script(ASS.replace("{\\pos(10,20)}I lost.\\NGo!", "{\\i1}R&D{\\i0} <3 a --> b"))
    (*_, times, text) = script.to("vtt").splitlines()
    assert times == "00:00:01.000 --> 00:00:02.500"
    assert text == "<i>R&amp;D</i> &lt;3 a --&gt; b"


def test_several_outputs_each_in_its_format(run, said, tmp_path: Path) -> None:
    (tmp_path / "talk.srt").write_text(SRT, "utf-8")
    names = [tmp_path / name for name in ("a.srt", "a.vtt", "a.ass", "a.txt", "a.jsonl")]
    options = [part for name in names for part in ("-o", name)]
    assert run(tmp_path / "talk.srt", *options).out == ""
    expected = f"{said['I lost.']} {said['Go!']}"
    assert names[3].read_text("utf-8").splitlines()[0] == expected
    for file in names[:3]:
        once = tmp_path / f"again-{file.name}"
        run(file, "-o", once)
        assert "<i>" in file.read_text("utf-8") or "{\\i1}" in file.read_text("utf-8")
    assert run("Go!", "-o", tmp_path / "one.txt").status == 0
    assert (tmp_path / "one.txt").read_text("utf-8") == f"{said['Go!']}\n"


def test_encodings_are_found_or_named(run, said, tmp_path: Path) -> None:
    file, cue = tmp_path / "talk.srt", "1\n00:00:01,000 --> 00:00:02,500\n[caf\u00e9] Go!\n"
    expected = run_text = None
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        file.write_bytes(cue.encode(encoding))
        done = run(file)
        run_text, expected = done.out, expected or done.out
        assert run_text == expected and "[café]" in run_text
        assert ("read as cp1252" in done.err) == (encoding == "cp1252")
    assert "not utf-8; name its encoding" in run(file, "--encoding", "utf-8").err
    assert run(file, "--encoding", "latin-1").out == expected


def test_files_and_folders_of_subtitles_keep_their_names(run, said, tmp_path: Path) -> None:
    source, out = tmp_path / "subs", tmp_path / "fr"
    (source / "day").mkdir(parents=True)
    (source / "a.srt").write_text(SRT, "utf-8")
    (source / "day" / "b.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nGo!\n", "utf-8")
    notes = tmp_path / "notes.txt"
    notes.write_text("Go!\n", "utf-8")
    assert run(source, notes, "-o", f"{out}/").status == 0
    assert (out / "a.srt").read_text("utf-8") == run(source / "a.srt").out
    assert (out / "day/b.vtt").read_text("utf-8") == run(source / "day/b.vtt").out
    assert (out / "notes.txt").read_text("utf-8") == run(notes).out == f"{said['Go!']}\n"
    assert run(source, "-f", "text", "-o", out).status == 0
    assert (out / "day/b.txt").read_text("utf-8") == f"{said['Go!']}\n"
    (source / "bad.srt").write_text("no cue\n", "utf-8")
    done = run(source, "-o", f"{tmp_path}/again/")
    assert done.status == 2 and len(done.err.splitlines()) == 1
    assert done.err.startswith(f"asr: error: {source}/bad.srt: SRT line 1: got 'no cue'")
    assert (tmp_path / "again/a.srt").is_file() and not (tmp_path / "again/bad.srt").exists()


def test_a_path_is_not_translated_as_a_text(run, said, tmp_path: Path) -> None:
    song, folder = tmp_path / "song.mp3", tmp_path / "empty"
    song.write_bytes(b"x")
    folder.mkdir()
    for name in ("no.srt", "My film.srt", "q.json", "x.mp3", "none/", song, folder):
        done = run(name)
        assert (done.status, done.out) == (2, "") and len(done.err.splitlines()) == 1
        assert f"{name}: " in done.err and "wanted texts, or files in .srt" in done.err
    for text in ("I play song.mp3", "Go!", "", "Is it either/or?"):
        assert run(text).status == 0


@pytest.mark.parametrize("options", [["-f", "text", "-f", "jsonl"], ["-f", "jsonl", "--why"]])
def test_two_formats_are_refused(run, options, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(*options, "Go!")
    assert left.value.code == 2 and "argument" in capsys.readouterr().err


def test_mistakes_are_one_line(run, tmp_path: Path) -> None:
    file = tmp_path / "talk.srt"
    file.write_text(SRT, "utf-8")
    other = tmp_path / "other.srt"
    other.write_text(SRT, "utf-8")
    for arguments, message in [
        (["--to", "de", "Go!"], "got --model and --to"),
        (["Go!", "--file", file], "texts and --file"),
        (["Go!", "-f", "srt"], "subtitles come from --file or stdin"),
        (["--file", file, "--heat-map", "x.png"], "no heat map"),
        (["--file", file, "--why"], "subtitles and --format why"),
        (["--file", tmp_path / "none.srt"], "cannot be read"),
        ([file, "--encoding", "klingon"], "got encoding 'klingon'"),
        (["Go!", "-o", tmp_path / "a.srt"], "texts and an output in srt"),
        (["Go!", "-f", "text", "-o", tmp_path / "a.txt"], "--format and --output"),
        ([file, "-o", "subs"], "for a folder write subs/"),
        (["Go!", "-o", f"{tmp_path}/"], "a folder takes translations of files"),
        (["Go!", file], "got paths and the text 'Go!'"),
        ([file, other], "2 files to translate; name one folder for them: -o FOLDER/"),
        ([file, "-o", tmp_path], "an input, which would be replaced; name another output"),
        (
            [file, "-o", tmp_path / "b.srt", "-o", file],
            f"{file}: an input, which would be",
        ),
        (["--file", file, "-o", file], "an input, which would be replaced; name another output"),
        ([file, "-f", "why", "-o", f"{tmp_path}/x/"], "--format why is no format of files"),
        (["Go!", "--encoding", "cp1252"], "--encoding is for subtitles"),
    ]:
        done = run(*arguments)
        assert (done.status, done.out) == (2, "")
        assert message in done.err and len(done.err.splitlines()) == 1
