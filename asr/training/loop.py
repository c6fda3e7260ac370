"""The training loop, shared by all tasks."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from asr.errors import UserError
from asr.render.durations import duration_text
from asr.training import distributed, stopping
from asr.training.config import TrainingSettings
from asr.training.contract import Task
from asr.training.fingerprint import Fingerprint
from asr.training.gradients import Entry, Gradients, Made
from asr.training.journal import Journal, log_line
from asr.training.loading import prefetch
from asr.training.optimizer import freeze, make_optimizer, rate_at
from asr.training.rounding import Rounding
from asr.training.state import (
    Checkpoint,
    Progress,
    Run,
    RunningAverage,
    checkpoints,
    restore,
    save_checkpoint,
)

MOST_IDLE_EPOCHS = 10  # consecutive; some data for a part of the epochs alone may give an idle one
STEPS = "steps"  # among the sums of a log
MOST_BAD_STEPS = 20  # consecutive steps without a finite gradient before a run is stopped


def train(
    task: Task,
    settings: TrainingSettings,
    folder: Path,
    seed: int,
    checkpoint: Checkpoint | None = None,
    fingerprint: Fingerprint | None = None,
) -> Progress | None:
    """Train for all steps or until patience is exhausted; None if a signal stopped it.

    checkpoint: to resume from. fingerprint: of the run, for its checkpoints.

    Writes into `folder`: checkpoints/, metrics.jsonl, tensorboard/, alignments/, and after each
    validation models/step-N with the averaged weights (only the best are kept).

    Raises:
        UserError: the loss was not finite for too many steps in a row, or the folder cannot be
            written, such as on a full disk. The last checkpoint is as it was.
    """
    model = task.model
    if checkpoint is None:
        task.begin()
    freeze(model, settings.frozen)
    run = Run(
        Progress(),
        model,
        make_optimizer(model, settings),
        RunningAverage(model, settings.average),
        defaultdict(float),
    )
    if checkpoint is not None:
        restore(checkpoint, run)
        log_line(_resumption(run.progress, settings, checkpoint.fingerprint))
    distributed.begin_alike(model, run.progress.step)
    try:
        return _train(task, settings, folder, seed, run, fingerprint)
    except OSError as error:
        kept = checkpoints(folder / "checkpoints")
        rest = f"{kept[0].name} is whole: the same command resumes there" if kept else "begin again"
        reason = error.strerror or error
        raise UserError(
            f"{error.filename or folder}: cannot be written: {reason}; {rest}"
        ) from error


def _train(
    task: Task,
    settings: TrainingSettings,
    folder: Path,
    seed: int,
    run: Run,
    fingerprint: Fingerprint | None,
) -> Progress | None:
    journal = Journal(folder, run.progress.step)
    quiet = distributed.rank() > 0 or not sys.stderr.isatty()
    bar = tqdm(total=settings.steps, initial=run.progress.step, unit="step", disable=quiet)
    trainer = _Trainer(task, settings, folder, seed, run, fingerprint, journal, bar)
    try:
        if settings.start_from and not run.progress.step and not run.progress.best:
            trainer.validate()  # the figures to beat; if none is better, the model stays as it was
        while not (trainer.finished or trainer.stopped):
            trainer.run_epoch()
    finally:
        bar.close()
        journal.close()
    return run.progress if trainer.finished else None


class _Trainer:
    """One call of `train`, which may continue an earlier one from its checkpoint."""

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        folder: Path,
        seed: int,
        run: Run,
        fingerprint: Fingerprint | None,
        journal: Journal,
        bar: Any,
    ) -> None:
        self.task = task
        self.settings = settings
        self.folder = folder
        self.seed = seed
        self.run = run
        self.optimizer = run.optimizer
        self.average = run.average
        self.rounding = Rounding(task.model, settings.bits)
        self.progress = run.progress
        self.sums = run.sums
        self.gradients = Gradients(task, run.progress)
        self.fingerprint = fingerprint
        self.journal = journal
        self.bar = bar
        self.bad_steps = 0
        self.idle_epochs = 0
        self.stopped = False
        self.estimated = False
        self.since = _Meter(run.progress)

    @property
    def finished(self) -> bool:
        """Whether all steps are done or patience is exhausted."""
        return _is_finished(self.progress, self.settings)

    def run_epoch(self) -> None:
        """Train on the rest of the epoch, with validations and checkpoints."""
        epoch, before = self.progress.epoch, self.progress.step
        plan = list(enumerate(self.task.plan(epoch)))[self.progress.position :]

        def make(planned: tuple[int, list[int]]) -> Made:
            entry = Entry(epoch, *planned)
            part, counts = distributed.share_of(len(entry.indices))
            return Made(self.task.make(*entry, part), counts, entry)

        made = prefetch(plan, make, self.settings.loaders)
        group: list[Made] = []
        for (position, _), batch in zip(plan, made, strict=False):
            group.append(batch)
            if len(group) < self.settings.accumulate:
                continue
            self.step(group)
            group = []
            self.progress.position = position + 1
            if self.progress.step % self.settings.log_every == 0:
                self.log()
            if self.progress.step % self.settings.validate_every == 0 or self.finished:
                self.validate()
            if self.finished:
                return
            if signal := distributed.largest(stopping.requested()):
                return self.stop(signal)
        self._require_steps(self.progress.step - before, len(plan))
        self.progress.epoch, self.progress.position = epoch + 1, 0

    def stop(self, signal: int) -> None:
        """Write a checkpoint, from which the run resumes as if it had not been stopped.

        signal: that arrived, in this process or another.
        """
        self.stopped = True
        stopping.note(signal)
        self.since.pause()
        if distributed.rank() == 0:
            save_checkpoint(self.folder / "checkpoints", self.run, self.fingerprint)
        name = "Ctrl-C" if stopping.interrupted() else "SIGTERM"
        step = self.progress.step
        log_line(f"stopped by {name} at step {step}; the same command resumes there")

    def step(self, batches: Sequence[Made]) -> None:
        """Take one optimiser step on the mean loss of the batches."""
        step = self.progress.step
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(step, self.settings)
        self.task.model.train()
        # Dropout depends only on the step, so that a resumed run draws the same masks.
        seed = _mixed(self.seed, step, distributed.rank())
        with self.rounding.in_place():
            parts = self.gradients.add(batches, step, seed)
        gradients = [each.grad for each in self.task.model.parameters() if each.grad is not None]
        distributed.add_up([*gradients, *parts.values()])
        norm = nn.utils.clip_grad_norm_(self.task.model.parameters(), self.settings.clip)
        finite = bool(torch.isfinite(norm))
        for name, value in {**parts, "gradient_norm": norm.detach()}.items():
            self.sums[name] = self.sums[name] + (value if finite else 0.0)
        self.sums[STEPS] = self.sums[STEPS] + finite
        if finite:
            self.optimizer.step()
            self.average.update()
            self.bad_steps = 0
        else:
            self._count_bad_step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.bar.update()

    def log(self) -> None:
        """Log the mean of each part of the loss since the last log, and the speed."""
        steps = float(self.sums.pop(STEPS))  # those with a finite gradient
        values: dict[str, float | str] = {
            name: float(value) / steps if steps else math.nan for name, value in self.sums.items()
        }
        self.sums.clear()
        seconds, amount, measured = self.since.lap()
        self._estimate(seconds / measured)
        values["rate"] = self.optimizer.param_groups[0]["lr"]
        values[f"{self.task.unit}_per_second"] = amount / seconds
        values["epoch"] = self.progress.epoch
        values["training_seconds"] = self.progress.seconds
        values["skipped_steps"] = self.progress.skipped
        self.journal.write(self.progress.step, "train", values)
        self.bar.set_postfix(loss=f"{values['loss']:.3f}", refresh=False)

    def _estimate(self, seconds: float) -> None:
        """Say once how long the remaining steps take; seconds: of a step."""
        left = self.settings.steps - self.progress.step
        if self.estimated or left <= 0:
            return
        self.estimated = True
        log_line(
            f"step {self.progress.step}: {seconds:.2g} s a step; the remaining {left} steps take "
            f"about {duration_text(seconds * left)}, and validations besides"
        )

    def validate(self) -> None:
        """Validate with the averaged weights; keep the model if it is one of the best."""
        self.since.pause()
        with self.average.in_place():
            with self.rounding.in_place():
                figure = distributed.from_first(self._judge() if distributed.rank() == 0 else 0.0)
            self._keep_if_good(figure)
        if distributed.rank() == 0:
            save_checkpoint(self.folder / "checkpoints", self.run, self.fingerprint)
        self.since.resume()

    def _judge(self) -> float:
        """Validate, log the metrics and return the figure."""
        step = self.progress.step
        self.task.model.eval()
        with torch.no_grad():
            found = self.task.validate(step, self.folder)
        values: dict[str, float | str] = {**found.metrics}
        values |= {"amount": self.progress.amount, "verdict": found.verdict}
        self.journal.write(step, "dev", values)
        if found.picture is not None:
            self.journal.picture(step, found.picture)
        figures = "  ".join(f"{name} {value:.4g}" for name, value in found.metrics.items())
        log_line(f"step {step}  {figures}  {found.verdict}")
        return found.figure

    def _keep_if_good(self, figure: float) -> None:
        """Save the model if it is one of the best `keep`; delete the one it replaces."""
        progress = self.progress
        figure = math.inf if math.isnan(figure) else figure  # NaN has no place in an order
        improved = not progress.best or figure < progress.best[0][0]
        progress.worse = 0 if improved else progress.worse + 1
        ranked = sorted([*progress.best, (figure, progress.step)])
        progress.best = ranked[: self.settings.keep]
        if distributed.rank() > 0:
            return
        if (figure, progress.step) in progress.best:
            self.task.save(model_folder(self.folder, progress.step))
        for _, step in ranked[self.settings.keep :]:
            shutil.rmtree(model_folder(self.folder, step), ignore_errors=True)

    def _require_steps(self, steps: int, batches: int) -> None:
        """Stop a run that would never end: too many epochs in a row without a step."""
        self.idle_epochs = 0 if steps else self.idle_epochs + 1
        if self.idle_epochs == MOST_IDLE_EPOCHS:
            raise UserError(
                f"{MOST_IDLE_EPOCHS} epochs without a step: an epoch has {batches} batches, a step "
                f"takes training.accumulate = {self.settings.accumulate}; give more data, or lower "
                "batches.size"
            )

    def _count_bad_step(self) -> None:
        self.bad_steps += 1
        self.progress.skipped += 1
        log_line(
            f"step {self.progress.step}: the gradient is not finite; step skipped "
            f"({self.progress.skipped} in this run)"
        )
        if self.bad_steps >= MOST_BAD_STEPS:
            raise UserError(
                f"the gradient was not finite for {MOST_BAD_STEPS} steps in a row; "
                f"the last checkpoint is intact: lower training.rate and start again"
            )


def _is_finished(progress: Progress, settings: TrainingSettings) -> bool:
    out_of_patience = 0 < settings.patience <= progress.worse
    return progress.step >= settings.steps or out_of_patience


def _resumption(progress: Progress, settings: TrainingSettings, before: Fingerprint | None) -> str:
    """Return what a resumed run does, for the log; before: of the run that it resumes."""
    if not _is_finished(progress, settings):
        steps = before.config.get("training.steps", "") if before else ""
        changed = f"; training.steps is now {settings.steps}, it was {steps}"
        is_changed = steps not in ("", repr(settings.steps))
        at = f"resuming at step {progress.step} (epoch {progress.epoch})"
        return at + changed if is_changed else at
    if progress.step > settings.steps:
        return (
            f"the run is at step {progress.step}, beyond training.steps = {settings.steps}: it "
            "ends here, and its model is made of the validations up to now"
        )
    return (
        f"already finished, at step {progress.step}: nothing is trained; set training.steps or "
        "training.patience higher to go on, or use a new run folder"
    )


def _mixed(*numbers: int) -> int:
    """Combine several numbers to one seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


class _Meter:
    """Measures time, amount and steps between laps, without pauses such as validations."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lap = (0.0, 0.0, 0)
        self.resume()

    def resume(self) -> None:
        """Measure from now on."""
        self._last = (time.perf_counter(), self._progress.amount, self._progress.step)

    def pause(self) -> None:
        """Add what has passed to the lap, and its time to that of the training."""
        start, amount, step = self._last
        self.resume()
        now, amount_now, step_now = self._last
        self._progress.seconds += now - start
        seconds, its_amount, steps = self._lap
        self._lap = (
            seconds + now - start,
            its_amount + amount_now - amount,
            steps + step_now - step,
        )

    def lap(self) -> tuple[float, float, int]:
        """Return seconds, amount and steps since the last lap, and start the next."""
        self.pause()
        (seconds, amount, steps), self._lap = self._lap, (0.0, 0.0, 0)
        return max(seconds, math.ulp(1.0)), amount, steps


def model_folder(folder: Path, step: int) -> Path:
    """Return the folder in which a run keeps the model of a step."""
    return folder / "models" / f"step-{step:08d}"
