"""Checkpoints: everything needed to resume a run exactly."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from asr.errors import UserError

KEPT_CHECKPOINTS = 2  # the newest, and its predecessor in case the newest is damaged


@dataclass
class Progress:
    """Progress of a run.

    step: optimiser steps taken. epoch, position: the next batch is `position` of `epoch`.
    best: (figure, step) of the best validations, best first. worse: validations since the best.
    amount: audio seconds or tokens processed. seconds: training time over all resumptions.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    worse: int = 0
    amount: float = 0.0
    seconds: float = 0.0


class RunningAverage:
    """Exponential moving average of a model's weights.

    After n steps the decay is at most (1 + n) / (10 + n), so that early weights fade quickly.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self._weights = [each for each in model.state_dict().values() if each.is_floating_point()]
        self.values = [each.detach().clone() for each in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """Update the average after an optimiser step."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(self.values, self._weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the averaged weights in the model within the block."""
        if not self.decay:
            yield
            return
        own = [each.clone() for each in self._weights]
        torch._foreach_copy_(self._weights, self.values)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, own)


def save_checkpoint(
    folder: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: RunningAverage,
) -> Path:
    """Write a checkpoint atomically (temporary file, fsync, rename)."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "progress": vars(progress),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "average": {"updates": average.updates, "values": average.values},
    }
    path = folder / f"step-{progress.step:08d}.pt"
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    for old in _checkpoints(folder)[KEPT_CHECKPOINTS:]:
        old.unlink()
    return path


class Checkpoint(NamedTuple):
    """A checkpoint as read from its file."""

    path: Path
    content: dict[str, Any]


def read_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[Path]]:
    """Read the newest readable checkpoint.

    Returns the checkpoint (None if there is none) and the damaged files that were skipped.
    """
    damaged: list[Path] = []
    for path in _checkpoints(folder):
        content = _read(path)
        if content is not None:
            return Checkpoint(path, content), damaged
        damaged.append(path)
    return None, damaged


def restore(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: RunningAverage,
) -> Progress:
    """Restore weights, buffers, optimiser and average from a checkpoint; return its progress.

    Raises:
        UserError: the checkpoint holds a model of other sizes.
    """
    path, content = checkpoint
    try:
        model.load_state_dict(content["model"])
    except RuntimeError as error:
        raise UserError(
            f"{path}: its model settings differ from the config; use a new run folder"
        ) from error
    optimizer.load_state_dict(content["optimizer"])
    average.updates = content["average"]["updates"]
    _copy_all(average.values, content["average"]["values"])
    return Progress(**content["progress"])


def average_weights(
    states: Sequence[Mapping[str, Tensor]], shares: Sequence[float] | None = None
) -> dict[str, Tensor]:
    """Return the weighted mean of several models' weights; None weights them equally.

    The mean is taken in float64, so that values that all models share stay as they are.
    """
    parts = torch.tensor([1.0] * len(states) if shares is None else shares, dtype=torch.float64)
    parts /= parts.sum()
    means = {}
    for name in states[0]:
        values = torch.stack([state[name].double() for state in states])
        means[name] = torch.tensordot(parts, values, 1).float()
    return means


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints, newest first."""
    return sorted(folder.glob("step-*.pt"), reverse=True)


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a checkpoint, or None if it is damaged."""
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return content
    except Exception:  # a damaged file can raise almost anything
        return None


def _copy_all(values: list[Tensor], sources: list[Tensor]) -> None:
    for value, source in zip(values, sources, strict=True):
        value.copy_(source)
