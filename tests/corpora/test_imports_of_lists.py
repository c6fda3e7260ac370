"""Lists of other tools: what is in them stands in the manifest, and dev speakers are held out."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from asr import cli
from asr.corpora import check_manifest, read_manifest
from asr.corpora.entries import Entry, write_entries
from asr.corpora.held_out import MOST, split
from asr.corpora.kaldi import read_kaldi
from asr.corpora.left_out import LeftOut
from asr.corpora.manifest import Utterance
from asr.corpora.nemo import read_nemo
from asr.corpora.tables import read_common_voice, read_ljspeech, read_table
from asr.errors import UserError


def sound(path: Path, seconds: float = 1.0, rate: int = 16000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.linspace(-0.5, 0.5, round(seconds * rate), dtype=np.float32)
    soundfile.write(path, samples, rate)
    return path


def fields(entries: list[Entry], folder: Path) -> list[tuple[object, ...]]:
    return [(str(each.audio.relative_to(folder)), *each[1:7]) for each in entries]


def test_tables(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav")
    (tmp_path / "x.csv").write_text(
        '\ufeffPath;Sentence;client_id\na.wav;"Hi; ""you""\nthere";ann\nb.wav;No;\n', "utf-8"
    )
    assert fields(read_table(tmp_path / "x.csv"), tmp_path) == [
        ("a.wav", 'Hi; "you"\nthere', "a", None, "ann", None, None),
        ("b.wav", "No", "b", None, None, None, None),
    ]


def test_common_voice_and_its_quotation_marks(tmp_path: Path) -> None:
    sound(tmp_path / "clips/common_voice_en_1.wav")
    (tmp_path / "validated.tsv").write_text(
        "client_id\tpath\tsentence\tage\tgender\taccents\n"
        'f00\tcommon_voice_en_1.wav\t"Go," he said.\t\tfemale\tUnited States English\n',
        "utf-8",
    )
    assert fields(read_common_voice(tmp_path, "validated.tsv"), tmp_path / "clips") == [
        (
            *("common_voice_en_1.wav", '"Go," he said.', "common_voice_en_1", None),
            *("f00", "female", "United States English"),
        )
    ]


def test_ljspeech(tmp_path: Path) -> None:
    sound(tmp_path / "wavs/LJ1.wav")
    (tmp_path / "metadata.csv").write_text("LJ1|In 1984|In nineteen eighty-four\n", "utf-8")
    manifest = tmp_path / "my.jsonl"
    write_entries(manifest, read_ljspeech(tmp_path), tmp_path)
    (found,) = read_manifest(manifest)
    assert (found.id, found.written, found.text) == ("LJ1", "In 1984", "in nineteen eighty four")


def test_kaldi_with_and_without_segments(tmp_path: Path) -> None:
    audio = sound(tmp_path / "r1.wav", 3.0)
    (tmp_path / "wav.scp").write_text(f"r1 {audio}\n", "utf-8")
    (tmp_path / "text").write_text("r1 GOOD MORNING\n", "utf-8")
    assert fields(read_kaldi(tmp_path), tmp_path) == [
        ("r1.wav", "GOOD MORNING", "r1", None, None, None, None)
    ]
    (tmp_path / "text").write_text("ann/1 good\nann/2 morning\n", "utf-8")
    (tmp_path / "segments").write_text("ann/1 r1 0.5 1.5\nann/2 r1 2.0 -1\n", "utf-8")
    (tmp_path / "utt2spk").write_text("ann/1 ann\nann/2 ann\n", "utf-8")
    (tmp_path / "spk2gender").write_text("ann f\n", "utf-8")
    manifest = tmp_path / "my.jsonl"
    assert write_entries(manifest, read_kaldi(tmp_path), tmp_path) == []
    one, two = read_manifest(manifest)
    assert (one.id, one.text, one.speaker, one.gender) == ("ann/1", "good", "ann", "F")
    assert (one.duration, two.duration) == (1.0, 1.0) and check_manifest(manifest) == []
    samples = soundfile.read(one.audio)[0]
    assert samples == pytest.approx(soundfile.read(audio)[0][8000:24000], abs=1e-4)


def test_nemo_with_and_without_offsets(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", 2.0)
    lines = [
        {"audio_filepath": "a.wav", "text": "good", "duration": 2.0},
        {"audio_filepath": "a.wav", "text": "morning", "offset": 0.5, "duration": 1.0},
    ]
    file = tmp_path / "nemo.json"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    manifest = tmp_path / "my.jsonl"
    write_entries(manifest, read_nemo(file), file)
    found = [(each.id, each.text, each.duration) for each in read_manifest(manifest)]
    assert found == [("a", "good", 2.0), ("a-2", "morning", 1.0)]


@pytest.mark.parametrize("start", [math.nan, math.inf, -math.inf])
def test_times_that_are_not_finite_are_one_line(tmp_path: Path, start: float) -> None:
    audio = sound(tmp_path / "a.wav")
    for times in ((start, 1.0), (0.5, start)):
        with pytest.raises(UserError, match=r"a\.wav: a is .* s of it, but it has 1\.00 s"):
            write_entries(
                tmp_path / "my.jsonl", [Entry(audio, "a", start=times[0], end=times[1])], tmp_path
            )


def test_missing_recordings_are_left_out(tmp_path: Path) -> None:
    entries = [Entry(sound(tmp_path / "a.wav"), "good"), Entry(tmp_path / "b.wav", "bad")]
    entries += [Entry(sound(tmp_path / "c.wav"), " "), Entry(tmp_path / "d.wav", "torn")]
    entries += [Entry(tmp_path / "d.wav", "part", "d-2", start=0.0)]
    (tmp_path / "d.wav").write_bytes(b"no audio")
    found = write_entries(tmp_path / "my.jsonl", entries, tmp_path)
    assert found[:2] == [
        LeftOut(tmp_path / "b.wav", "no such file"),
        LeftOut(tmp_path / "c.wav", "its text is empty"),
    ]
    assert [each.path for each in found[2:]] == [tmp_path / "d.wav"] * 2
    assert [each.id for each in read_manifest(tmp_path / "my.jsonl")] == ["a"]


def test_one_file_name_in_two_folders(tmp_path: Path) -> None:
    for name in ("am/one.wav", "pm/one.wav"):
        sound(tmp_path / name)
    file, manifest = tmp_path / "x.csv", tmp_path / "my.jsonl"
    sound(tmp_path / "no.5.wav")
    file.write_text("audio,text\nno.5,good\n", "utf-8")
    assert [each.id for each in read_table(file)] == ["no.5"]
    file.write_text("audio,text\nam/one.wav,good\npm/one.wav,bad\n", "utf-8")
    assert write_entries(manifest, read_table(file), file) == []
    assert [each.id for each in read_manifest(manifest)] == ["am/one", "pm/one"]
    lines = [{"audio_filepath": f"{each}/one.wav", "text": "good"} for each in ("am", "pm")]
    nemo = tmp_path / "nemo.json"
    nemo.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    write_entries(manifest, read_nemo(nemo), nemo)
    assert [each.id for each in read_manifest(manifest)] == ["am/one", "pm/one"]
    file.write_text("audio,text\nam/one.wav,good\n\nam/one.wav,bad\n", "utf-8")
    with pytest.raises(UserError, match=r"x\.csv:4: the id 'am/one' is already used in line 2"):
        write_entries(manifest, read_table(file), file)


def test_the_command_says_where_it_looked(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.csv").write_text("audio,text\nam/one.wav,good\n", "utf-8")
    assert cli.main(["prepare", "table", "my.csv", "my.jsonl"]) == 2
    told = capsys.readouterr().err
    assert f"looked for {tmp_path / 'am/one.wav'}; --audio DIR names" in told
    assert cli.main(["prepare", "commonvoice", "my.csv", "my.jsonl"]) == 2
    assert "wanted the folder of the release: ., with --table my.csv" in capsys.readouterr().err


def test_why_no_speaker_is_held_out(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        sound(tmp_path / f"{number}.wav")
    for speakers, message in [
        ("", "speakers are not known"),
        ("aaaa", "there is one speaker"),
        ("aabb", "each has too much of the speech"),
    ]:
        rows = [f"{at},good morning,{speakers[at : at + 1]}" for at in range(4)]
        Path("my.csv").write_text("\n".join(["path,text,speaker", *rows]), "utf-8")
        assert cli.main(["prepare", "table", "my.csv", "my.jsonl", "--dev", "dev.jsonl"]) == 0
        assert message in capsys.readouterr().out


utterances = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.floats(0.5, 9)), min_size=2, max_size=40
).map(
    lambda pairs: [
        Utterance(f"u{place}", Path("x.wav"), "text", seconds, speaker)
        for place, (speaker, seconds) in enumerate(pairs)
    ]
)


@given(utterances, st.floats(0.05, 1.0))
@settings(deadline=None)
def test_no_speaker_is_on_both_sides(items: list[Utterance], share: float) -> None:
    train, dev, by_speaker = split(items, share)
    assert train and dev and sorted([*train, *dev], key=items.index) == items
    speakers = {each.speaker for each in items}
    least = min(sum(each.duration for each in items if each.speaker == name) for name in speakers)
    wanted = share * sum(each.duration for each in items)
    assert by_speaker == (len(speakers) > 1 and least <= MOST * wanted)
    if by_speaker:
        assert not {each.speaker for each in train} & {each.speaker for each in dev}
        total = sum(each.duration for each in items)
        largest = max(
            sum(each.duration for each in items if each.speaker == name) for name in "abcdef"
        )
        assert sum(each.duration for each in dev) <= share * total + largest
    assert split(items, share) == (train, dev, by_speaker)


@pytest.mark.parametrize("name", ["ann", "bob", "cid", "dan"])
def test_a_speaker_with_most_of_the_speech_is_not_held_out(name: str) -> None:
    def said(speaker: str, count: int) -> list[Utterance]:
        return [
            Utterance(f"{speaker}-{at}", Path("a.wav"), "a", 10.0, speaker) for at in range(count)
        ]

    two = [*said(name, 6), *said("zoe", 360)]
    assert {each.speaker for each in split(two, 0.1).dev} == {name}
    alike = split([*said(name, 6), *said("zoe", 6)], 0.1)  # half of all would be held out
    assert not alike.by_speaker and len(alike.dev) == 1


def test_the_command_splits_a_dev_set_off(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["path,text,speaker"]
    for number in range(6):
        sound(tmp_path / f"audio/{number}.wav")
        rows.append(f"{number},good morning,s{number % 3}")
    Path("my.csv").write_text("\n".join(rows), "utf-8")
    command = ["prepare", "table", "my.csv", "my.jsonl", "--audio", "audio", "--dev", "dev.jsonl"]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    assert "my.jsonl: 4 utterances" in out
    assert "dev.jsonl: 2 utterances" in out and "their speakers are not trained on" in out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "a,b\n1,2\n", "name the columns: got a, b; wanted one of audio, path"),
        ("x.csv", "a.wav,Hello\n", "x.csv: the first line must name the columns: got a.wav, Hello"),
        ("x.csv", "audio,text\na.wav\n", "x.csv:2: got 1 columns, wanted 2"),
        ("x.csv", "audio,text\na.wav,hello, there\n", "x.csv:2: got 3 columns, wanted 2; a text"),
        ("x.csv", 'audio,text\na.wav,"b\n', "x.csv:2"),
        ("x.csv", "audio,text\n", "no utterances in it"),
        ("x.csv", "audio,text\na.wav,good\n", "none of its recordings exist"),
        ("x.json", '{"text": "a"}', "x.json:1"),
        ("metadata.csv", "LJ1\n", "wanted id|text"),
        ("text", "r1 good\n", "no recording 'r1'"),
    ],
)
def test_mistakes_name_the_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(content, "utf-8")
    (tmp_path / "wav.scp").write_text("r2 b.wav\n", "utf-8")
    readers = {".csv": read_table, ".json": read_nemo}
    with pytest.raises(UserError) as raised:
        if name == "metadata.csv":
            read_ljspeech(tmp_path)
        elif name == "text":
            read_kaldi(tmp_path)
        else:
            write_entries(tmp_path / "my.jsonl", readers[file.suffix](file), file)
    assert message in str(raised.value)
    (tmp_path / "wav.scp").write_text("r1 flac -d x.flac |\n", "utf-8")
    with pytest.raises(UserError, match="r1 is the output of a command"):
        read_kaldi(tmp_path)
