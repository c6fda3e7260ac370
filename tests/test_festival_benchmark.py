"""The benchmark of a voice whose word times are known."""

import json
import os
import runpy
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from asr.corpora.word_times import read_word_times, timed_words
from asr.errors import UserError

SCRIPT = str(Path(__file__).parents[1] / "benchmarks" / "festival.py")
festival = SimpleNamespace(**runpy.run_path(SCRIPT))

# Says a word every half second, with an own word for 's, and divides "cannot".
FAKE = """#!/usr/bin/env python3
import re, sys
script = sys.stdin.read()
(text,), (audio,) = (re.findall(p, script) for p in (r'Text "([^"]*)"', r'spoken "([^"]*)"'))
if "silent" in text:
    sys.exit("no such voice")
open(audio, "wb").close()
text = text.replace("'s", " 's").replace("cannot", "can not")
for at, word in enumerate(text.split()):
    print(word, at / 2, at / 2 + 0.4)
"""


@pytest.fixture(autouse=True)
def fake(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "festival"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_recordings_and_times_are_written_and_other_words_left_out(tmp_path, monkeypatch, capsys):
    texts = {"a-1": "the dog's tail", "a-2": "we cannot go"}
    manifest = tmp_path / "manifest.jsonl"
    lines = [
        {"id": name, "audio": "x", "text": text, "duration": 1} for name, text in texts.items()
    ]
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    folder = tmp_path / "spoken"
    monkeypatch.setattr(sys, "argv", ["festival.py", str(manifest), str(folder)])
    festival.main()
    assert "a-2: divided" in capsys.readouterr().err
    assert [each.name for each in folder.glob("*.wav")] == ["a-1.wav"]
    times = timed_words(texts["a-1"], read_word_times(folder / "times.jsonl")["a-1"])
    assert [tuple(each) for each in times.values()] == [
        ("the", 0.0, 0.4),
        ("dog's", 0.5, 1.4),
        ("tail", 1.5, 1.9),
    ]


def test_a_failure_of_festival_is_named(tmp_path):
    with pytest.raises(UserError, match="no such voice"):
        festival.speak("silent", tmp_path / "a.wav")
