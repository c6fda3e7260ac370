"""benchmarks/versions.py runs the `asr` of each checkout on the same files and scores it."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

ROOT = Path(__file__).parents[1]

# Writes the same words, in a gap too, for each file that it is given, and what it was given.
FAKE = """
import json, sys
from pathlib import Path
given = sys.argv[1:]
where = given.index("-o")
words = WORDS
with open(given[where + 1], "w") as file:
    for path in given[1:where]:
        low = "babble" in path
        text = " ".join(word for word, _ in words)
        timed = [{"word": word, "start": at, "end": at + 0.1} for word, at in words]
        record = {"path": path, "duration": 1.0, "text": text, "words": timed, "english": SCORE,
                  "segments": [{"text": text, "low_confidence": low}]}
        file.write(json.dumps(record) + "\\n")
Path(__file__).with_name("given.txt").write_text("\\n".join(given))
"""


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the benchmark, which imports another one beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("versions", ROOT / "benchmarks" / "versions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkout(folder: Path, words: list[tuple[str, float]], score: float | None) -> Path:
    """Write a checkout whose every transcript has these words at these times."""
    package = folder / "asr"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    source = FAKE.replace("WORDS", repr(words)).replace("SCORE", repr(score))
    (package / "__main__.py").write_text(source, "utf-8")
    return folder


@pytest.fixture
def checkouts(tmp_path: Path) -> list[str]:
    """Return an old version, which has no score, and a new one, which warns."""
    old = checkout(tmp_path / "old", [("go", 0.1), ("home", 0.5), ("you", 6.0)], None)
    new = checkout(tmp_path / "new", [("go", 0.1), ("home", 0.5)], 0.25)
    return ["--checkouts", str(old), str(new)]


def manifest(folder: Path) -> Path:
    """Write a manifest of two utterances of a second."""
    lines = []
    for name in ("one", "two"):
        soundfile.write(folder / f"{name}.flac", np.full(16_000, 0.01, np.float32), 16_000)
        lines.append(json.dumps({"id": name, "audio": f"{name}.flac", "text": "go home"}))
    file = folder / "manifest.jsonl"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


@pytest.fixture
def compare(
    versions: Any,
    checkouts: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., list[list[str]]]:
    """Return a function that compares both and gives the cells of the rows."""

    def run(what: str, material: Path, *options: str) -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", ["versions.py", what, str(material), *checkouts, *options])
        versions.main()
        lines = capsys.readouterr().out.splitlines()
        return [line.split() for line in lines if line.startswith(("old", "new"))]

    return run


def test_versions_are_scored_on_the_same_list(
    compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = compare("list", manifest(Path()), "--options", "--beam 1")
    assert old[:6] == ["old", "2", "50.00", "57.14", "2", "0"]  # "you" is a word too many
    assert new[:6] == ["new", "2", "0.00", "0.00", "0", "2"]
    command = (tmp_path / "new" / "asr" / "given.txt").read_text("utf-8").splitlines()
    assert command[0] == "transcribe" and command[-2:] == ["--beam", "1"]
    assert command[1:3] == [str(tmp_path / "one.flac"), str(tmp_path / "two.flac")]


def test_an_hour_is_scored_whole_and_by_its_utterances(
    compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("long_recordings.GAP_SHARE", 1.0)  # each utterance is before a gap of 5 s
    rows = compare("hour", manifest(tmp_path), "--minutes", "0.01")
    assert [row[:6] for row in rows[:2]] == [
        ["old", "whole", "50.00", "57.14", "1", "1"],
        ["old", "utterances", "50.00", "57.14", "1", "–"],
    ]
    assert [row[:6] for row in rows[2:]] == [
        ["new", "whole", "0.00", "0.00", "0", "0"],
        ["new", "utterances", "0.00", "0.00", "0", "–"],
    ]


def test_clips_are_counted_by_kind(compare: Any, tmp_path: Path) -> None:
    clips = tmp_path / "clips"
    for kind in ("babble", "French"):
        (clips / kind).mkdir(parents=True)
        soundfile.write(clips / kind / "00.flac", np.zeros(1600, np.float32), 16_000)
    assert compare("clips", clips) == [
        ["old", "French", "1", "10800", "10800", "0", "1"],
        ["old", "babble", "1", "10800", "0", "0", "1"],
        ["new", "French", "1", "7200", "7200", "1", "1"],
        ["new", "babble", "1", "7200", "0", "1", "1"],
    ]


def test_a_model_is_named_from_the_current_folder_but_for_another_version(
    versions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def note(command: list[str], cwd: Path | None, **options: Any) -> SimpleNamespace:
        folders.append(cwd)
        return SimpleNamespace(returncode=0, stdout="10 0.5\n")

    output = tmp_path / "found.jsonl"
    output.touch()
    monkeypatch.setattr("subprocess.run", note)
    versions.run([], output, ["-m", "runs/mine"])
    versions.run([], output, [], tmp_path / "other")
    assert folders == [None, tmp_path]


def test_what_cannot_be_compared_is_one_line(
    versions: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(versions.UserError, match=r"no checkout: has no asr/__init__\.py"):
        versions.Version(tmp_path, [])
    (tmp_path / "asr").mkdir()
    (tmp_path / "asr" / "__init__.py").touch()
    version = versions.Version(tmp_path, [])
    with pytest.raises(versions.UserError, match="asr transcribe failed"):  # has no __main__
        version.transcribe([tmp_path / "one.flac"])
    assert "Traceback" not in capfd.readouterr().err
    with pytest.raises(versions.UserError, match=r"no clips: wanted KIND/\*\.flac"):
        list(versions.of_clips(version, tmp_path))
