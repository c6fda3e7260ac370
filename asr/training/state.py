"""Checkpoints: everything needed to resume a run exactly."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from asr.checksums import seal, unsealed, write_whole
from asr.errors import UserError
from asr.training.fingerprint import Fingerprint
from asr.training.journal import log_line

FORMAT = 1
MOST_SHOWN = 4  # differences that are named
KEPT_CHECKPOINTS = 2  # the newest, and its predecessor in case the newest is damaged


@dataclass
class Progress:
    """Progress of a run.

    step: optimiser steps taken. epoch, position: the next batch is `position` of `epoch`.
    best: (figure, step) of the best validations, best first. worse: validations since the best.
    amount: audio seconds or tokens processed. seconds: training time over all resumptions.
    skipped: steps without a finite gradient.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    best: list[tuple[float, int]] = field(default_factory=list)
    worse: int = 0
    amount: float = 0.0
    seconds: float = 0.0
    skipped: int = 0


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


class Run(NamedTuple):
    """What a checkpoint saves, and a resumed run restores in place.

    sums: of the logged losses since the last line of the log, and their number as `steps`.
    """

    progress: Progress
    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: RunningAverage
    sums: dict[str, Tensor | float]


def save_checkpoint(folder: Path, run: Run, fingerprint: Fingerprint | None) -> Path:
    """Write a checkpoint with its checksum, and remove all but the newest `KEPT_CHECKPOINTS`.

    Raises:
        OSError: it cannot be written; earlier ones are as they were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "fingerprint": fingerprint._asdict() if fingerprint else None,
        "progress": vars(run.progress),
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "average": {"updates": run.average.updates, "values": run.average.values},
        "sums": dict(run.sums),
    }
    stored = io.BytesIO()
    torch.save(content, stored)
    path = folder / f"step-{run.progress.step:08d}.pt"
    write_whole(path, stored.getbuffer(), seal(stored.getbuffer()))
    for old in checkpoints(folder)[KEPT_CHECKPOINTS:]:
        old.unlink()
    return path


class Checkpoint(NamedTuple):
    """A checkpoint as read from its file."""

    path: Path
    content: dict[str, Any]

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Of the run that wrote it; None in those of earlier versions."""
        found = self.content.get("fingerprint")
        return Fingerprint(**found) if found else None


class Skipped(NamedTuple):
    """A file that is no checkpoint to resume from, and the reason."""

    path: Path
    reason: str


def read_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[Skipped]]:
    """Read the newest good checkpoint.

    Returns the checkpoint (None if there is none) and the newer files that were skipped.

    Raises:
        UserError: there are files, and none is good: a run is not begun anew by itself.
    """
    skipped: list[Skipped] = []
    for path in checkpoints(folder):
        try:
            return Checkpoint(path, read_content(path)), skipped
        except (OSError, UserError) as error:
            skipped.append(Skipped(path, str(error)))
    if skipped:
        path, reason = skipped[0]
        raise UserError(
            f"{path}: {reason}; no other checkpoint is there: remove it to begin anew, or use "
            "another run folder"
        )
    return None, skipped


def open_checkpoint(
    folder: Path, fingerprint: Fingerprint, continue_anyway: bool
) -> Checkpoint | None:
    """Read the newest good checkpoint, and compare what its run was begun with; None without any.

    fingerprint: of the run that resumes. continue_anyway: log what differs instead of refusing it.

    Raises:
        UserError: something differs, or as in `read_checkpoint`.
    """
    checkpoint, skipped = read_checkpoint(folder)
    for path, reason in skipped:
        log_line(f"{path}: {reason}; skipped")
    if checkpoint is None:
        return None
    if checkpoint.fingerprint is None:
        log_line(f"{checkpoint.path}: of an earlier version, without a checksum and a fingerprint")
        return checkpoint
    if differing := checkpoint.fingerprint.differences(fingerprint):
        shown = "; ".join(differing[:MOST_SHOWN])
        more = f"; and {len(differing) - MOST_SHOWN} more" if len(differing) > MOST_SHOWN else ""
        what = f"{folder.parent}: not what the run was begun with: {shown}{more}"
        if not continue_anyway:
            raise UserError(f"{what}; use a new run folder, or --continue-anyway")
        log_line(f"{what}; continuing anyway")
    return checkpoint


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first."""
    return sorted(folder.glob("step-*.pt"), reverse=True)


def read_content(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint.

    Nothing in it is executed: torch reads tensors and plain values alone (`weights_only`).

    Raises:
        OSError, UserError: it cannot be read, is damaged, or not of this version; the reason.
    """
    try:
        stored, has_checksum = unsealed(path.read_bytes())
        content = torch.load(io.BytesIO(stored), map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a damaged file can raise almost anything
        raise UserError(f"damaged, or not a checkpoint ({error!r:.60})") from error
    if not isinstance(content, dict) or not content.keys() >= {"progress", "model", "optimizer"}:
        raise UserError("not a checkpoint of this program")
    number = content.get("format", FORMAT)
    if number != FORMAT:
        raise UserError(f"format {number!r:.20}, but this version reads format {FORMAT}")
    if "format" in content and not has_checksum:
        raise UserError("damaged: its checksum is missing")
    return content


def restore(checkpoint: Checkpoint, run: Run) -> None:
    """Restore a run from a checkpoint.

    Raises:
        UserError: the checkpoint holds a model of other sizes, or is of another program.
    """
    path, content = checkpoint
    try:
        run.model.load_state_dict(content["model"])
    except RuntimeError as error:
        raise UserError(
            f"{path}: its model settings differ from the config; use a new run folder"
        ) from error
    try:
        run.optimizer.load_state_dict(content["optimizer"])
        _restore_average(run.average, content["average"])
        _restore_progress(run.progress, content["progress"])
        device = next(run.model.parameters()).device
        sums = content.get("sums", {})
        for name, value in sums.items() if "steps" in sums else ():  # earlier ones have no number
            run.sums[name] = value.to(device) if isinstance(value, Tensor) else float(value)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        raise UserError(f"{path}: not a checkpoint of this program: {error!r:.200}") from error


def _restore_average(average: RunningAverage, content: Any) -> None:
    average.updates = int(content["updates"])
    for value, source in zip(average.values, content["values"], strict=True):
        if value.shape != source.shape:
            raise ValueError("its average has other sizes")
        value.copy_(source)


def _restore_progress(progress: Progress, content: Any) -> None:
    known = vars(progress)
    for name, value in content.items():
        if name not in known or not isinstance(value, type(known[name])):
            raise ValueError(f"progress.{name} = {value!r:.40}")
        setattr(progress, name, value)
    progress.best = [(float(figure), int(step)) for figure, step in progress.best]


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
        means[name] = torch.tensordot(parts.to(values.device), values, 1).float()
    return means
