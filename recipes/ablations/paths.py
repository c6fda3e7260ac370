"""Ablate the information paths of an encoder-decoder on toy tasks.

    python recipes/ablations/paths.py RUNS [--toys primes reverse copy sort] [--seeds 1 2 3]

trains every ablation on every toy task with every seed, each in a separate folder in RUNS, and
writes RUNS/paths.md and RUNS/paths.png. Finished runs are not trained again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from runs import publish
from summary import cell, draw
from toys import BEYOND, TOYS, TRAINED, VOCABULARY, Sizes, make_data

from asr.attention import KINDS
from asr.commands.options import count
from asr.corpora.batching import plan_batches
from asr.corpora.collate import pad_tokens
from asr.errors import UserError, exit_status
from asr.models.cells import CELLS
from asr.models.folder import save_folder
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import build_translation_model
from asr.render.tables import markdown_table
from asr.runtime.torch_runtime import TorchDecoder
from asr.scoring.sequences import score
from asr.search.greedy import greedy
from asr.search.limits import most_target_tokens
from asr.tables import to_table
from asr.training.config import LossSettings, TrainingSettings
from asr.training.contract import WHOLE, Losses, Term, Validation
from asr.training.journal import log_line
from asr.training.loop import train
from asr.training.losses.sequences import sequence_loss, shift
from asr.training.state import read_checkpoint
from asr.training.tasks.translation_data import Example, TextBatch

Figures = dict[str, Any]  # a line of metrics.jsonl of kind "dev"
Results = dict[tuple[str, str], list[list[Figures]]]  # (toy, cut) → validations of each seed

# Settings of the decoder that each cut changes.
NO_STATE = {"initial": "zero"}
BARE_READOUT = {"readout_token": False, "readout_context": False}
NO_TOKEN = {"token_to_cell": False}
CUTS: dict[str, dict[str, Any]] = {
    "full": {},
    "zero-state": NO_STATE,
    "bare-readout": BARE_READOUT,
    "no-token-to-cell": NO_TOKEN,
    "all-three": NO_STATE | BARE_READOUT | NO_TOKEN,
}
MODEL = TranslationSettings(
    encoder=TextualSettings(embedding_size=32, state_size=48, cell="gru", dropout=0.0),
    attention=AttentionSettings(size=48),
    decoder=DecoderSettings(embedding_size=32, state_size=64, readout_size=64, dropout=0.0),
)
TRAINING = TrainingSettings(
    steps=250,
    rate=5e-3,
    warmup_steps=50,
    decay_share=0.5,
    weight_decay=0.0,
    average=0.99,
    keep=1,
    precision="fp32",
    device="cpu",
)
BATCH = 128  # lists
LOSS = LossSettings(label_smoothing=0.0)


def settings_of(cut: str, kind: str = "additive", cell: str = "gru") -> TranslationSettings:
    """Return the model with a cut, another kind of attention, and another cell."""
    return replace(
        MODEL,
        attention=replace(MODEL.attention, kind=kind),
        decoder=replace(MODEL.decoder, cell=cell, **CUTS[cut]),
    )


class ToyTask:
    """A toy task for the training loop; see `asr.training.contract.Task`."""

    unit = "target_tokens"

    def __init__(
        self, toy: str, seed: int, sizes: Sizes, settings: TranslationSettings = MODEL
    ) -> None:
        """Make the data and the model; both depend only on the seed."""
        self.start = 0.0  # CPU-seconds of this process, without those of tests
        self.seed = seed
        self.data = make_data(toy, seed, sizes)
        self.settings = settings
        torch.manual_seed(seed)
        self.model = build_translation_model(self.settings, len(VOCABULARY), len(VOCABULARY))

    def begin(self) -> None:
        """Start from the random weights."""

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch: lists of similar length, in random order."""
        self.start = self.start or time.process_time()  # after the imports of the loop
        lengths = [example.length for example in self.data.train]
        random = np.random.default_rng((self.seed, epoch))
        return plan_batches(lengths, float("inf"), BATCH, random)

    def make(self, epoch: int, position: int, indices: list[int], part: slice = WHOLE) -> TextBatch:
        """Pad the lists of one batch."""
        examples = [self.data.train[index] for index in indices[part]]
        source = pad_tokens([example.source for example in examples])
        target = pad_tokens([example.target for example in examples])
        return TextBatch(*map(torch.from_numpy, (*source, *target)))

    def loss(self, batch: TextBatch, step: int) -> Losses:
        """Return the cross-entropy of a batch."""
        memory = self.model.decoder.prepare(self.model.encoder(batch.source, batch.source_lengths))
        previous, expected = shift(batch.tokens, batch.token_lengths)
        output = self.model.decoder(previous, memory)
        total, parts = sequence_loss(output, expected, batch.source_lengths, LOSS, step)
        tokens = float(batch.token_lengths.sum() + len(batch.tokens))
        return Losses([Term(total, parts, tokens)], tokens)

    def validate(self, step: int, folder: Path) -> Validation:
        """Decode the test lists greedily: those of the trained lengths and longer ones."""
        now = time.process_time()
        metrics = {"cpu_seconds": now - self.start} | self._test(self.data.test)
        metrics |= {f"beyond_{name}": value for name, value in self._test(self.data.beyond).items()}
        self.start += time.process_time() - now
        return Validation(-metrics["geometric_mean"], metrics, "")

    def save(self, folder: Path) -> None:
        """Write a model folder for `asr translate -m FOLDER "3 5 7 9"`."""
        vocabulary = VOCABULARY.to_json()
        save_folder(
            folder,
            task="translation",
            model=to_table(self.settings),
            vocabularies={"source": vocabulary, "target": vocabulary},
            state=self.model.state_dict(),
            notes={},
        )

    def _test(self, examples: Sequence[Example]) -> dict[str, float]:
        decoder = self.model.decoder
        padded = map(torch.from_numpy, pad_tokens([each.source for each in examples]))
        memory = decoder.prepare(self.model.encoder(*padded))
        limits = most_target_tokens(memory.mask.sum(1).cpu().numpy())
        # Without the repetition guard, so that the decoder alone is scored.
        found = greedy(TorchDecoder(decoder, memory), limits, guard=None)
        result = score([each.target for each in examples], [list(each.tokens) for each in found])
        return {
            "psa": result.position_accuracy,
            "lcsr": result.lcs_ratio,
            "geometric_mean": result.geometric_mean,
            "exact": result.exact,
            "empty_as_zero": result.geometric_mean_empty_as_zero,
        }


def run(folder: Path, make: Callable[[], ToyTask], seed: int, steps: int) -> list[Figures]:
    """Train the model of a task unless its folder holds a finished run; return its validations.

    Validation runs half-way, before the learning rate decays, and at the end.

    Raises UserError if the folder holds a run with another number of steps.
    """
    found = _records(folder / "metrics.jsonl")
    if not found or found[-1]["step"] < steps:
        log_line(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        settings = replace(TRAINING, steps=steps, validate_every=max(1, steps // 2))
        checkpoint, _ = read_checkpoint(folder / "checkpoints")
        if train(make(), settings, folder, seed, checkpoint) is None:
            raise KeyboardInterrupt  # a signal stopped it
        found = _records(folder / "metrics.jsonl")
    if found[-1]["step"] != steps:
        raise UserError(f"{folder}: holds a run of {found[-1]['step']} steps, wanted {steps}")
    return found


def _records(path: Path) -> list[Figures]:
    if not path.exists():
        return []
    records = map(json.loads, path.read_text("utf-8").splitlines())
    return [record for record in records if record["kind"] == "dev"]


def tables(results: Results) -> str:
    """Return two tables in Markdown: for lists of the trained lengths, and for longer ones."""
    columns = ("psa", "lcsr", "geometric_mean", "exact")
    near, far = [], []
    for (toy, cut), seeds in results.items():
        last = [records[-1] for records in seeds]
        own = [cell([each[name] for each in last]) for name in (*columns, "empty_as_zero")]
        near.append((toy, cut, *own, cell([records[0]["geometric_mean"] for records in seeds])))
        beyond = [cell([each[f"beyond_{name}"] for each in last]) for name in columns]
        far.append((toy, cut, *beyond, cell([each["cpu_seconds"] for each in last], digits=1)))
    shared = ("toy", "cut", "PSA", "LCSR", "GeoMean", "exact")
    return "\n\n".join(
        (
            f"Lists of {TRAINED[0]} to {TRAINED[1]} integers, as in training:",
            markdown_table((*shared, "GeoMean, empty as 0", "GeoMean half-way"), near),
            f"Lists of {BEYOND[0]} to {BEYOND[1]} integers:",
            markdown_table((*shared, "CPU-seconds of training"), far),
        )
    )


def picture(path: Path, results: Results) -> None:
    """Draw the geometric mean of every seed: at the end, half-way, and for longer lists."""
    near, far = (f"{least} to {most} integers" for least, most in (TRAINED, BEYOND))
    panels: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (toy, cut), seeds in results.items():
        panels.setdefault(toy, {})[cut] = {
            f"{near}, as in training": [records[-1]["geometric_mean"] for records in seeds],
            f"{near}, half-way through training": [
                records[0]["geometric_mean"] for records in seeds
            ],
            far: [records[-1]["beyond_geometric_mean"] for records in seeds],
        }
    draw(path, panels, "√(PSA · LCSR)", end=1.0)


def main() -> None:
    """Read the arguments, train missing models, and write the tables and the picture."""
    parser = argparse.ArgumentParser(description="Ablate paths of an encoder-decoder.")
    parser.add_argument("runs", type=Path, help="folder for the runs, the table and the picture")
    parser.add_argument("--toys", nargs="+", choices=TOYS, default=list(TOYS))
    parser.add_argument("--cuts", nargs="+", choices=CUTS, default=list(CUTS))
    parser.add_argument("--kind", choices=KINDS, default="additive", help="kind of attention")
    parser.add_argument("--cell", choices=CELLS, default="gru", help="cell of the decoder")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=count, default=TRAINING.steps)
    parser.add_argument(
        "--lists", type=count, default=Sizes().train, help="number of training lists"
    )
    given = parser.parse_args()
    sizes = Sizes(train=given.lists)
    results: Results = {}
    for toy, cut, seed in product(given.toys, given.cuts, given.seeds):
        settings = settings_of(cut, given.kind, given.cell)
        make = partial(ToyTask, toy, seed, sizes, settings)
        found = run(given.runs / f"{toy}-{cut}-{seed}", make, seed, given.steps)
        results.setdefault((toy, cut), []).append(found)
    publish(given.runs, "paths", tables(results), lambda path: picture(path, results))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
