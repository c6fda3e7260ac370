"""What the commands share: figures made once and kept, what is written of them, how they end."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asr.errors import UserError
from asr.training.run import run


def once(
    file: Path, asked: Sequence[str], make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the figures that a file in a run's folder holds; without it, make and note them.

    asked: the config and what was set, which the file must agree with. make: gives what JSON can
        hold, and leaves the folder there to write to.

    Raises UserError when the file is of a run that was asked for otherwise.
    """
    if not file.exists():
        found = make()
        file.write_text(json.dumps({"asked": [*asked], **found}), "utf-8")
        return found
    held: dict[str, Any] = json.loads(file.read_text("utf-8"))
    if (was_asked := held.pop("asked")) != [*asked]:
        raise UserError(f"{file.parent}: holds a run of {' '.join(was_asked)}; name another folder")
    return held


def train(config: Path, folder: Path, data: Path, overrides: Sequence[str]) -> float:
    """Train in a folder, which is there only when the run is finished; return its CPU-seconds.

    Raises UserError when the folder is there, or the run cannot be made.
    """
    if folder.exists():
        raise UserError(f"{folder}: is in the way and no finished run; name another folder")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a command that was stopped
    before = cpu_seconds()
    run(config, unfinished, data, overrides)
    seconds = cpu_seconds() - before
    unfinished.rename(folder)
    return seconds


def validations(folder: Path) -> list[dict[str, Any]]:
    """Return what each validation of a finished run noted, in order."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == "dev"]


def publish(runs: Path, name: str, text: str, picture: Callable[[Path], None]) -> None:
    """Write RUNS/name.md and RUNS/name.png, and print the text.

    Raises UserError when the picture cannot be written.
    """
    (runs / f"{name}.md").write_text(f"{text}\n", "utf-8")
    picture(runs / f"{name}.png")
    print(text)


def cpu_seconds() -> float:
    """Return the CPU-seconds of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])
