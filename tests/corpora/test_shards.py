"""Recordings in tar archives: what is written there is read again, and any member by itself."""

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tiny_model import write_tiny_model

from asr import cli
from asr.audio import archive
from asr.audio.read import read
from asr.corpora import check_manifest, read_manifest
from asr.corpora.shards import read_webdataset, write_shards
from asr.errors import UserError

SAMPLES = Path(__file__).parents[2] / "data" / "speech" / "manifest.jsonl"


def tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as opened:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            opened.addfile(header, io.BytesIO(content))
    return path


def flac(seconds: float = 1.0) -> bytes:
    into = io.BytesIO()
    soundfile.write(into, np.linspace(-0.5, 0.5, round(16000 * seconds)), 16000, format="FLAC")
    return into.getvalue()


def without_audio(manifest: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "audio"} for line in lines]


def test_shards_hold_the_same_files_and_texts(tmp_path):
    manifest = write_shards(SAMPLES, tmp_path / "shards", 0.1)
    before, after = read_manifest(SAMPLES), read_manifest(manifest)
    assert [archive.content(each.audio) for each in after] == [
        each.audio.read_bytes() for each in before
    ]
    assert [(each.id, each.text, each.speaker) for each in after] == [
        (each.id, each.text, each.speaker) for each in before
    ]
    assert check_manifest(manifest) == []
    (first, second) = sorted(manifest.parent.glob("*.tar"))
    assert (first.name, second.name) == ("000000.tar", "000001.tar")
    assert all((first.parent / f"{each.name}.index.json").is_file() for each in (first, second))
    assert first.stat().st_size >= 100_000 and second.stat().st_size < 100_000
    np.testing.assert_array_equal(read(after[0].audio).samples, read(before[0].audio).samples)


def test_shards_are_read_as_another_tool_would_have_written_them(tmp_path):
    manifest = write_shards(SAMPLES, tmp_path / "shards", 1)
    assert cli.main(["prepare", "webdataset", str(manifest.parent), str(tmp_path / "x.jsonl")]) == 0
    assert without_audio(tmp_path / "x.jsonl") == without_audio(manifest)
    again = write_shards(manifest, tmp_path / "again", 1)
    assert without_audio(again) == without_audio(manifest)


def test_shards_of_another_tool(tmp_path, capsys):
    tar(
        tmp_path / "a.tar",
        {
            "./day/one.FLAC": flac(),
            "./day/one.txt": b"Good morning\n",
            "two.flac": flac(2),
            "two.json": b'{"sentence": "Good night", "speaker": 7}',
            "three.flac": flac(),
            "three.cls": b"1",
        },
    )
    entries = read_webdataset(tmp_path)
    assert [(each.id, each.written, each.speaker) for each in entries] == [
        ("day/one", "Good morning", None),
        ("two", "Good night", "7"),
        ("three", "", None),
    ]
    assert cli.main(["prepare", "webdataset", str(tmp_path), str(tmp_path / "x.jsonl")]) == 0
    assert "three.flac" in capsys.readouterr().err
    one, two = read_manifest(tmp_path / "x.jsonl")
    assert (one.duration, two.duration, one.text) == (1, 2, "good morning")


def test_a_recording_in_an_archive_is_transcribed(tmp_path, capsys):
    model = write_tiny_model(tmp_path / "tiny")
    shard = tar(tmp_path / "a.tar", {"clips/one.flac": flac()})
    (tmp_path / "one.flac").write_bytes(flac())
    found = []
    for path in (shard / "clips/one.flac", tmp_path / "one.flac"):
        assert cli.main(["transcribe", str(path), "-m", str(model), "-f", "jsonl"]) == 0
        found.append(json.loads(capsys.readouterr().out) | {"path": "one"})
    assert found[0] == found[1] and found[0]["duration"] == 1.0


def test_an_archive_that_changes_is_read_anew(tmp_path):
    path = tar(tmp_path / "a.tar", {"one.txt": b"1"})
    assert archive.content(path / "one.txt") == b"1"
    tar(path, {"two.txt": b"2", "one.txt": b"11"})
    os.utime(path, (1, 1))
    assert archive.content(path / "one.txt") == b"11"


def test_an_index_saves_the_headers(tmp_path, monkeypatch):
    path = tar(tmp_path / "a.tar", {"one.txt": b"1", "two.txt": b"22"})
    index = tmp_path / "a.tar.index.json"
    archive.write_index(path)
    tarred = archive.members(path)
    archive._members.cache_clear()
    monkeypatch.setattr(tarfile, "open", None)
    assert archive.members(path) == tarred and archive.content(path / "two.txt") == b"22"
    whole = index.read_text()
    for damaged in (
        "{",
        "[]",
        '{"size": 3, "members": {}}',
        whole.replace("[", "[0,"),
        whole.replace("[512, 1]", "[-512, 1]"),
        whole.replace("[512, 1]", "[512, 1000000]"),
    ):
        archive._members.cache_clear()
        index.write_text(damaged)
        with pytest.raises(TypeError, match="not callable"):  # the headers are read after all
            archive.members(path)


def test_an_archive_that_ends_within_a_member_is_damaged(tmp_path, monkeypatch):
    path = tar(tmp_path / "a.tar", {"one.txt": b"1"})
    monkeypatch.setattr(archive, "members", lambda _: {"one.txt": archive.Extent(512, 1_000_000)})
    with pytest.raises(UserError, match=r"a\.tar: damaged: it ends within one\.txt"):
        archive.content(path / "one.txt")


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("whole.tar/none.flac", r"whole\.tar: no file none\.flac in it"),
        ("text.tar/one.flac", r"text\.tar: not a tar archive, or damaged"),
        ("cut.tar/one.flac", r"cut\.tar: (not a tar archive|damaged)"),
        ("none.tar/one.flac", r"none\.tar/one\.flac: no such file"),
        ("file.txt/one.flac", r"file\.txt/one\.flac: no such file"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, member, message):
    whole = tar(tmp_path / "whole.tar", {"one.flac": flac()})
    (tmp_path / "cut.tar").write_bytes(whole.read_bytes()[:1500])
    for name in ("text.tar", "file.txt"):
        (tmp_path / name).write_text("no archive" * 200)
    with pytest.raises(UserError, match=message):
        read(tmp_path / member)


def test_wrong_arguments_of_shards(tmp_path, capsys):
    assert cli.main(["prepare", "shards", str(SAMPLES), str(tmp_path), "--megabytes", "0"]) == 2
    assert "0 MB, wanted a size above 0" in capsys.readouterr().err
    (tmp_path / "old.tar").touch()
    assert cli.main(["prepare", "shards", str(SAMPLES), str(tmp_path)]) == 2
    assert "holds shards already" in capsys.readouterr().err
    with pytest.raises(UserError, match="no shards in it"):
        read_webdataset(tmp_path / "none")
    tar(tmp_path / "bad.tar", {"one.flac": flac(), "one.json": b"[1]"})
    (tmp_path / "old.tar").unlink()
    with pytest.raises(UserError, match=r"one\.json: not a JSON object"):
        read_webdataset(tmp_path)
