"""The path of a recording through the rooms of the package, from the command to the text."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import asr
from asr.cli import main

PACKAGE = Path(asr.__file__).parent
SAMPLE = PACKAGE.parent / "data/speech/5683-32866-0027.flac"
COORDINATORS = {"commands", "inference"}  # they call one room after another
LOADING = {"loaded", "tables"}  # modules by which models are read, which is no part of the path


@cache
def _module(code: CodeType) -> Path | None:
    """Return the file of a function relative to the package, if it is in a room of it."""
    path = Path(code.co_filename)
    inside = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else None
    return inside if inside is not None and len(inside.parts) > 1 else None


def _entered(arguments: list[str]) -> list[Path]:
    """Run a command and return the modules that coordinators call, in order, without repeats."""
    entered: list[Path] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        callee = _module(frame.f_code)
        if event != "call" or callee is None or frame.f_code.co_name == "<module>":
            return
        back = frame.f_back
        while back is not None and _module(back.f_code) is None:
            back = back.f_back
        caller = None if back is None else _module(back.f_code)
        if caller is None or caller.parts[0] not in COORDINATORS or caller.stem in LOADING:
            return
        if callee.parts[0] not in COORDINATORS and entered[-1:] != [callee]:
            entered.append(callee)

    sys.setprofile(note)
    try:
        assert main(arguments) == 0
    finally:
        sys.setprofile(None)
    return entered


def test_a_recording_enters_each_module_once(tmp_path: Path) -> None:
    output = tmp_path / "text.txt"
    options = ["--fastest", "0", "--beam", "2"]  # fast speech is encoded a second time
    entered = _entered(["transcribe", str(SAMPLE), *options, "-o", str(output)])

    assert output.read_text().startswith("A cold ")
    assert len(entered) == len(set(entered)), " → ".join(map(str, entered))
    rooms = [module.parts[0] for module in entered]
    stages = ["audio", "corpora", "runtime", "search", "alignment"]
    assert sorted(stages, key=rooms.index) == stages
