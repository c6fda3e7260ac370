"""Measure what a training step of a speech recipe spends its time on, beside a lower bound.

    python benchmarks/training_stages.py recipes/librispeech/shipped.toml --data CORPORA
    python benchmarks/training_stages.py CONFIG --data CORPORA --set teacher.model=english

A few batches of the recipe are made and each part of the step is computed by itself, forward and
backward, on one thread; then the whole step. The lower bound is that of the matrix products alone:
their operations, counted from the sizes, over the rate of a large product on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from asr.attention.contract import Annotations
from asr.audio.read import SAMPLE_RATE
from asr.commands.options import add_overrides, count
from asr.errors import UserError, exit_status
from asr.models.ctc import ctc_loss
from asr.models.encoders.recurrent import Bidirectional
from asr.models.speech import SpeechModel
from asr.render.tables import text_table
from asr.training.config import SpeechConfig, load_config
from asr.training.losses.sequences import sequence_loss, shift
from asr.training.optimizer import make_optimizer
from asr.training.precision import products
from asr.training.state import RunningAverage
from asr.training.tasks.speech import SpeechTask
from asr.training.tasks.speech_data import SpeechBatch

Made = TypeVar("Made")
WHOLE = "whole step"
BACKWARD = 3  # operations of forward and backward, in units of those of forward
_EPOCH, _POSITION = 0, 0


class Stages:
    """CPU seconds, and operations of matrix products, by the name of a part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.operations: dict[str, float] = defaultdict(float)

    def time(self, name: str, run: Callable[[], Made]) -> Made:
        """Run and add the time to that of a part."""
        before = time.process_time()
        made = run()
        self.seconds[name] += time.process_time() - before
        return made


def recurrent_operations(model: nn.Module, shapes: dict[str, int]) -> float:
    """Return the operations of the encoder's LSTMs forward, which torch's counter leaves out.

    shapes: rows (frames of all utterances, padding included) read by each layer, by its name.
    """
    return sum(
        2.0
        * shapes[name]
        * sum(weight.numel() for weight in layer.parameters() if weight.dim() > 1)
        for name, layer in model.named_modules()
        if isinstance(layer, Bidirectional)
    )


def rows_of_layers(model: nn.Module, run: Callable[[], object]) -> dict[str, int]:
    """Run, and return how many rows each recurrent layer has read."""
    rows, hooks = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, Bidirectional):

            def note(_: nn.Module, given: tuple[Tensor, ...], name: str = name) -> None:
                rows[name] = given[0].size(0) * given[0].size(1)

            hooks.append(layer.register_forward_pre_hook(note))
    run()
    for hook in hooks:
        hook.remove()
    return rows


def measure_batch(task: SpeechTask, stages: Stages, step: int, indices: list[int]) -> float:
    """Measure all parts of the step of a batch; return its seconds of audio."""
    model, settings = task.model, task.config
    batch = stages.time("recordings, augmentation", lambda: task.make(_EPOCH, step, indices))
    with products(task.device, settings.training.precision):
        features, frames = stages.time("features", lambda: _features(model, batch))
        annotations = _encoder(model, stages, features, frames)
        _ctc(model, stages, annotations, batch)
        _decoder(task, stages, annotations, batch)
        if task.data.teacher is not None:
            previous, _ = shift(batch.tokens, batch.token_lengths)
            with torch.no_grad():
                stages.time("teacher", lambda: task.targets(batch, previous))
    _whole(task, stages, batch, step)
    return float(batch.waveforms.lengths.sum()) / SAMPLE_RATE


def _features(model: SpeechModel, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
    waves = batch.waveforms
    features, frames = model.features(waves.samples, waves.lengths, waves.warps)
    return model.normalizer(features, frames), frames


def _encoder(model: SpeechModel, stages: Stages, features: Tensor, frames: Tensor) -> Annotations:
    """Measure the encoder; return its annotations, as leaves."""
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        rows = rows_of_layers(model, lambda: model.encoder(features, frames))
    others = counted.get_total_flops()
    operations = others + recurrent_operations(model, rows)
    stages.operations["encoder"] += BACKWARD * operations
    encoded = stages.time("encoder", lambda: model.encoder(features, frames))
    gradient = torch.randn_like(encoded.values)
    stages.time("encoder", lambda: encoded.values.backward(gradient))
    return Annotations(encoded.values.detach().requires_grad_(), encoded.mask)


def _ctc(model: SpeechModel, stages: Stages, annotations: Annotations, batch: SpeechBatch) -> None:
    head = model.ctc
    if head is None:
        return

    def run() -> None:
        lengths = annotations.mask.sum(1) * head.subframes
        ctc_loss(head(annotations), lengths, batch.tokens, batch.token_lengths).backward()

    stages.time("CTC", run)
    rows = annotations.values.size(0) * annotations.values.size(1)
    stages.operations["CTC"] += BACKWARD * 2.0 * rows * head.output.weight.numel()


def _decoder(
    task: SpeechTask, stages: Stages, annotations: Annotations, batch: SpeechBatch
) -> None:
    """Measure the decoder with its attention and the cross-entropy."""
    previous, expected = shift(batch.tokens, batch.token_lengths)
    lengths = annotations.mask.sum(1)

    def run() -> None:
        memory = task.model.decoder.prepare(annotations)
        output = task.model.decoder(previous, memory)
        sequence_loss(output, expected, lengths, task.config.loss, 0)[0].backward()

    stages.time("decoder", run)
    with FlopCounterMode(display=False) as counted:
        run()
    stages.operations["decoder"] += counted.get_total_flops()


def _whole(task: SpeechTask, stages: Stages, batch: SpeechBatch, step: int) -> None:
    optimizer = make_optimizer(task.model, task.config.training)
    average = RunningAverage(task.model, task.config.training.average)
    task.model.zero_grad(set_to_none=True)
    stages.time(WHOLE, lambda: task.loss(batch, step).total.backward())

    def update() -> None:
        nn.utils.clip_grad_norm_(task.model.parameters(), task.config.training.clip)
        optimizer.step()
        average.update()

    stages.time("optimiser", update)
    task.model.zero_grad(set_to_none=True)


def rate(size: int = 1024) -> float:
    """Return the operations a second of a square product."""
    left, right = torch.randn(size, size), torch.randn(size, size)
    torch.mm(left, right)
    before, rounds = time.process_time(), 20
    for _ in range(rounds):
        torch.mm(left, right)
    return rounds * 2.0 * size**3 / (time.process_time() - before)


def table(stages: Stages, audio: float, speed: float) -> list[tuple[str, ...]]:
    """Return the rows: a part, its CPU milliseconds a second of audio, and its lower bound."""
    rows = []
    for name, seconds in stages.seconds.items():
        operations = stages.operations.get(name)
        bound = "–" if operations is None else f"{1000 * operations / speed / audio:.2f}"
        rows.append((name, f"{1000 * seconds / audio:.2f}", bound))
    return rows


def main() -> None:
    """Read the arguments, measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--batches", type=count, default=4, help="number of them (default: 4)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    add_overrides(parser, "a key of the config, as for asr train")
    given = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    config = load_config(given.config, [*given.overrides, "training.device=cpu"])
    if not isinstance(config, SpeechConfig):
        raise UserError(f"{given.config}: wanted a speech recipe")
    task = SpeechTask(config, given.data or given.config.parent, given.config.parent)
    task.begin()
    task.model.train()
    stages, audio = Stages(), 0.0
    plan = task.plan(_EPOCH)
    measure_batch(task, Stages(), _POSITION, plan[0])  # loads what is loaded on first use
    for step in range(1, given.batches + 1):
        audio += measure_batch(task, stages, step, plan[step % len(plan)])
    speed = rate()
    print(f"{given.batches} batches, {audio:.0f} s of audio; products: {speed / 1e9:.0f} GFLOP/s")
    rows = table(stages, audio, speed)
    print(text_table(("part", "CPU ms a second of audio", "matrix products alone"), rows))
    if given.json is not None:
        content = {"seconds": stages.seconds, "operations": stages.operations, "audio": audio}
        given.json.write_text(json.dumps(content | {"rate": speed}, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
