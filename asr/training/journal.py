"""The record of a training run: metrics.jsonl, TensorBoard, and lines on stderr."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from asr.checksums import write_whole
from asr.training import distributed


class Journal:
    """Writes metrics.jsonl, and TensorBoard files if TensorBoard is installed."""

    def __init__(self, folder: Path, upto: int) -> None:
        self._path = folder / "metrics.jsonl"
        self._board: Any = None
        self._first = distributed.rank() == 0
        if not self._first:
            return
        self._drop_after(upto)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=upto + 1)

    def write(self, step: int, kind: str, values: dict[str, float | str]) -> None:
        """Log the values of a step, null if not finite; kind is "train" or "dev"."""
        if not self._first:
            return
        shown = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "kind": kind, **shown}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if not isinstance(value, str):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def picture(self, step: int, path: Path) -> None:
        """Add a PNG to TensorBoard."""
        if self._board is not None:
            from matplotlib import image

            self._board.add_image("alignment", image.imread(path), step, dataformats="HWC")

    def close(self) -> None:
        """Flush TensorBoard."""
        if self._board is not None:
            self._board.close()

    def _drop_after(self, step: int) -> None:
        """Delete torn lines, and entries that were written after the last checkpoint."""
        if not self._path.exists():
            return
        lines = self._path.read_text("utf-8", errors="replace").splitlines()
        steps = [_step_of(line) for line in lines]
        if torn := steps.count(None):
            log_line(f"{self._path}: {torn} damaged lines removed")
        kept = [
            line for line, at in zip(lines, steps, strict=True) if at is not None and at <= step
        ]
        write_whole(self._path, "".join(f"{line}\n" for line in kept).encode())


def dev_metrics(folder: Path, step: int) -> dict[str, float]:
    """Return the figures of the validation of a step, in the order of the log; empty if unknown."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return {}
    for line in reversed(path.read_text("utf-8", errors="replace").splitlines()):
        if _step_of(line) == step and (found := json.loads(line)).get("kind") == "dev":
            return {name: value for name, value in found.items() if isinstance(value, float)}
    return {}


def _step_of(line: str) -> int | None:
    """Return the step of a line; None if the line is damaged, such as one that a kill cut off."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) else None


def log_line(line: str) -> None:
    """Print a line to stderr above the progress bar; only the first process prints."""
    if distributed.rank() == 0:
        log_here(line)


def log_here(line: str) -> None:
    """Print a line to stderr above the progress bar, in any process."""
    tqdm.write(line, file=sys.stderr)


def write_json(path: Path, content: Any) -> None:
    """Write a small, indented JSON file."""
    write_whole(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
