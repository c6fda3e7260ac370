"""What is allowed in a manifest, but often a mistake, is named in a warning."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.cli import main
from asr.corpora.manifest import Utterance, read_manifest
from asr.corpora.remarks import remarks, same_recordings, shared_recordings
from asr.corpora.shards import write_shards
from asr.text.normalize import normalize

SAMPLES = Path(__file__).parents[2] / "data" / "speech" / "manifest.jsonl"


def said(written: str, seconds: float = 2.0, norm: str | None = None, name: str = "a") -> Utterance:
    text = normalize(written) if norm is None else norm
    return Utterance(name, Path(f"{name}.wav"), text, seconds, written=written)


def test_the_samples_have_no_remarks() -> None:
    assert list(remarks(read_manifest(SAMPLES))) == []


@pytest.mark.parametrize(
    ("utterance", "message"),
    [
        (said(" "), "1 utterance, such as 'a' with an empty text"),
        (said("hello there", 13.0), "(11 in 13.0 s): is text missing?"),
        (said("a text " * 20, 20.1), "above 20 s, left out of training"),
        (said("to 東京, § 5"), "3 characters that the model cannot write are dropped"),
        (said("песня and words"), "(п е с н я)"),
    ],
)
def test_each_remark(utterance: Utterance, message: str) -> None:
    clean = said("good morning", name="clean")
    (found,) = remarks([clean, utterance])
    assert message in found and "'a'" in found
    assert list(remarks([clean])) == []


@pytest.mark.parametrize(
    "utterance",
    [
        said("“Naïve” – café… (no) ‘tis; ½ of 5 °C, £3 & ¥2 ²!"),
        said("to 東京", norm="to tokyo"),
        said("yes", 4.9),
        said("hello there now", 13.0),
    ],
)
def test_what_is_no_remark(utterance: Utterance) -> None:
    assert list(remarks([utterance])) == []


def write(folder: Path, names: str, same: str) -> Path:
    """Write a manifest of recordings, those of `same` with the same bytes."""
    lines = []
    for name in names:
        audio = folder / f"{name}.wav"
        noise = np.random.default_rng(ord(name)).normal(0, 0.1, 16_000)
        soundfile.write(audio, noise, 16_000)
        if name in same:
            shutil.copy(folder / f"{same[0]}.wav", audio.with_suffix(".part"))
            audio.with_suffix(".part").replace(audio)
        lines.append(json.dumps({"audio": audio.name, "text": "good day"}))
    manifest = folder / f"{names}.jsonl"
    manifest.write_text("\n".join(lines), "utf-8")
    return manifest


def test_the_same_recording_twice(tmp_path: Path, capsys) -> None:
    first, second = write(tmp_path, "abc", "ad"), write(tmp_path, "de", "ad")
    train, dev = read_manifest(first), read_manifest(second)
    assert [(one.id, two.id) for one, two in same_recordings([*train, *dev])] == [("a", "d")]
    assert "1 recording to validate on is also trained on" in shared_recordings(train, dev)
    assert shared_recordings(train, dev[1:]) == ""
    assert main(["prepare", "check", str(first)]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main(["prepare", "check", str(first), str(second)]) == 0
    told = capsys.readouterr()
    assert "3 utterances, 3 s" in told.out and "2 utterances, 2 s" in told.out
    assert "asr: warning: 1 recording that occurs twice, byte for byte" in told.err


def test_a_recording_in_a_shard_and_beside_it(tmp_path: Path) -> None:
    manifest = write(tmp_path, "abc", "ac")
    sharded = read_manifest(write_shards(manifest, tmp_path / "shards", 4.0))
    found = same_recordings([*sharded, *read_manifest(manifest)])
    assert [one.id + two.id for one, two in found] == ["ac", "aa", "bb", "ac"]
    sharded[0].audio.parent.unlink()
    assert same_recordings(sharded) == []


def test_a_dev_set_with_recordings_that_are_trained_on(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    write(folder, "abcd", "abcd")
    for name in "abcd":
        (folder / f"{name}.txt").write_text("good day", "utf-8")
    dev = tmp_path / "dev.jsonl"
    command = ["prepare", "folder", str(folder), str(tmp_path / "m.jsonl"), "--dev", str(dev)]
    assert main(command) == 0
    assert "also trained on, byte for byte" in capsys.readouterr().err
