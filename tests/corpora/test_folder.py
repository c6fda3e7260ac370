"""A folder of recordings and texts becomes a manifest; files left out are reported."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.cli import main
from asr.corpora import check_manifest, read_manifest
from asr.corpora.folder import prepare
from asr.corpora.left_out import NO_RECORDING, NO_TEXT, LeftOut
from asr.errors import UserError


def record(path: Path, text: str | None = None, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, round(seconds * 16_000)), 16_000)
    if text is not None:
        path.with_suffix(".txt").write_text(text, encoding="utf-8")
    return path


def test_texts_beside_recordings(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    record(folder / "b.flac", "Good\nmorning! ", 1.5)
    record(folder / "day" / "a.wav", "It's 5.")
    record(folder / "noise.ogg", "")
    (folder / "notes.txt").write_text("belongs to nothing")
    alone = [LeftOut(folder / "notes.txt", NO_RECORDING)]
    assert prepare(folder, folder / "manifest.jsonl") == alone
    found = {u.id: u for u in read_manifest(folder / "manifest.jsonl")}
    assert {i: u.text for i, u in found.items()} == {
        "b": "good morning",
        "day/a": "it's five",
        "noise": "",
    }
    assert found["b"].written == "Good morning!"
    assert found["b"].duration == pytest.approx(1.5)
    assert check_manifest(folder / "manifest.jsonl") == []


def test_recordings_without_a_text_are_reported_and_left_out(tmp_path: Path) -> None:
    record(tmp_path / "a.wav", "hello")
    missing = [record(tmp_path / "b.wav"), record(tmp_path / "c" / "d.wav")]
    assert prepare(tmp_path, tmp_path / "m.jsonl") == [LeftOut(each, NO_TEXT) for each in missing]
    assert [u.id for u in read_manifest(tmp_path / "m.jsonl")] == ["a"]


def test_preparing_twice_changes_nothing(tmp_path: Path) -> None:
    record(tmp_path / "a.wav", "hello")
    prepare(tmp_path, tmp_path / "m.jsonl")
    before = (tmp_path / "m.jsonl").read_bytes()
    prepare(tmp_path, tmp_path / "m.jsonl")
    assert (tmp_path / "m.jsonl").read_bytes() == before


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        prepare(tmp_path / "absent", tmp_path / "m.jsonl")
    with pytest.raises(UserError, match="no audio"):
        prepare(tmp_path, tmp_path / "m.jsonl")
    record(tmp_path / "a.wav")
    with pytest.raises(UserError, match=r"without a text.*a\.txt"):
        prepare(tmp_path, tmp_path / "m.jsonl")
    record(tmp_path / "a.flac", "whose?")
    with pytest.raises(UserError, match="share"):
        prepare(tmp_path, tmp_path / "m.jsonl")
    assert not (tmp_path / "m.jsonl").exists()


def test_a_text_that_is_not_utf8_is_a_user_error(tmp_path: Path) -> None:
    record(tmp_path / "a.wav", "")
    (tmp_path / "a.txt").write_bytes("naïve".encode("latin-1"))
    with pytest.raises(UserError, match=r"a\.txt.*UTF-8"):
        prepare(tmp_path, tmp_path / "m.jsonl")


def test_all_files_that_cannot_be_used_are_named_at_once(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "mine"
    record(folder / "a.wav", "hello")
    record(folder / "latin.wav", "")
    (folder / "latin.txt").write_bytes("naïve".encode("latin-1"))
    for name in ("broken", "torn"):
        (folder / f"{name}.wav").write_bytes(b"no audio")
        (folder / f"{name}.txt").write_text("hello", "utf-8")
    for ending in ("wav", "flac"):
        record(folder / f"twice.{ending}", "whose?")
    manifest = tmp_path / "m.jsonl"
    assert main(["prepare", "folder", str(folder), str(manifest)]) == 0
    assert [each.id for each in read_manifest(manifest)] == ["a"]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 4 and all(line.startswith("asr: left out ") for line in told)
    for name in ("latin.txt", "broken.wav", "torn.wav", "twice.flac"):
        assert sum(str(folder / name) in line for line in told) == 1
