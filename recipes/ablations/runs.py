"""Functions that the ablation scripts share: cached results, training runs, output files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asr.errors import UserError
from asr.training.run import run_to_end


def once(
    file: Path, asked: Sequence[str], make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the results in a file of a run's folder; if it does not exist, make and write them.

    asked: the config and its overrides, which must equal those in the file. make: returns a JSON
        value and creates the folder.

    Raises UserError if the file belongs to a run with other settings.
    """
    if not file.exists():
        found = make()
        file.write_text(json.dumps({"asked": [*asked], **found}), "utf-8")
        return found
    held: dict[str, Any] = json.loads(file.read_text("utf-8"))
    if (was_asked := held.pop("asked")) != [*asked]:
        raise UserError(f"{file.parent}: holds a run of {' '.join(was_asked)}; use another folder")
    return held


def train(config: Path, folder: Path, data: Path, overrides: Sequence[str]) -> float:
    """Train in a folder that is created when the run is finished; return the CPU-seconds.

    Raises UserError if the folder exists or training fails.
    """
    if folder.exists():
        raise UserError(f"{folder}: exists but is not a finished run; use another folder")
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of an interrupted command
    before = cpu_seconds()
    run_to_end(config, unfinished, data, overrides)
    seconds = cpu_seconds() - before
    unfinished.rename(folder)
    return seconds


def validations(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of each validation of a finished run, in order."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == "dev"]


def publish(runs: Path, name: str, text: str, picture: Callable[[Path], None]) -> None:
    """Write RUNS/name.md and RUNS/name.png, and print the text.

    Raises UserError if the picture cannot be written.
    """
    (runs / f"{name}.md").write_text(f"{text}\n", "utf-8")
    picture(runs / f"{name}.png")
    print(text)


def cpu_seconds() -> float:
    """Return the CPU-seconds of this process and its finished child processes."""
    return sum(os.times()[:4])
