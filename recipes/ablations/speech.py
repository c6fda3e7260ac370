"""Ablations on speech: entropy weight, window, silence mask, CTC weight, location features.

    python recipes/ablations/speech.py RUNS --data FOLDER [--variants base window] [--seeds 1 2 3]

trains speech.toml once for each variant and seed, each in a separate folder in RUNS; transcribes
the dev utterances by greedy search, for some models with several attention settings; and writes
RUNS/speech.md and RUNS/speech.png. Finished runs are not trained again; interrupted runs are
restarted.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from runs import once, publish, train, validations
from spoken import PER_CENT, Spoken, decode_all, error_rates, read_spoken
from summary import cell, draw, panels
from torch import Tensor

from asr.attention.masks import pool_mask
from asr.attention.penalties import entropy
from asr.audio.mel import SECONDS_PER_FRAME
from asr.errors import exit_status
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece
from asr.models.speech import build_speech_model
from asr.render.tables import markdown_table
from asr.runtime.torch_engine import TorchEngine
from asr.scoring import health
from asr.training.config import SpeechConfig, load_config
from asr.training.tasks.speech_data import SpeechData

CONFIG = Path(__file__).with_name("speech.toml")
GREEDY = DecodingOptions(beam=1, fastest=0.0)  # at the original speed

Changes = Mapping[str, Any]  # settings of the attention → values
WINDOW: Changes = {"window_back": 5, "window_ahead": 10}  # 0.4 and 0.8 s
NO_WINDOW: Changes = dict.fromkeys(WINDOW, 0)
MASK: Changes = {"silence_mask": True}
NO_MASK: Changes = {"silence_mask": False}
AS_TRAINED = "as trained"
DIGITS = {"entropy": 2, "seconds": 0}  # decimals in the table; default: 1


class Variant(NamedTuple):
    """A training variant and its decoding settings.

    overrides: of the config, as for `asr train --set`.
    decodings: attention settings of further decodings; the first is as in training.
    """

    overrides: Sequence[str]
    decodings: Mapping[str, Changes]


def attending(changes: Changes, decodings: Mapping[str, Changes]) -> Variant:
    """Return a variant that changes settings of the attention in training."""
    overrides = [f"model.attention.{name}={json.dumps(value)}" for name, value in changes.items()]
    return Variant(overrides, decodings)


VARIANTS = {
    "base": Variant([], {"window": WINDOW, "mask": MASK, "window and mask": WINDOW | MASK}),
    "entropy-below-0": Variant(["loss.entropy=-0.05"], {}),
    "entropy-0": Variant(["loss.entropy=0.0"], {}),
    "entropy-0.1": Variant(["loss.entropy=0.1"], {}),
    "window": attending(WINDOW, {"no window": NO_WINDOW}),
    "silence-mask": attending(MASK, {"no mask": NO_MASK}),
    "ctc-0": Variant(["loss.ctc=0.0"], {}),
    "ctc-0.6": Variant(["loss.ctc=0.6"], {}),
    "no-location": attending({"location_features": 0}, {}),
    "scheduled-sampling": Variant(
        ["loss.scheduled_sampling=0.2", "loss.scheduled_sampling_from=400"], {}
    ),
}


class Training(NamedTuple):
    """half_way: CER in per cent after half of the steps. seconds: CPU time of the run."""

    half_way: float
    seconds: float


class Scores(NamedTuple):
    """Per cent, except the entropy in nats. Figures of the attention are means over steps."""

    cer: float
    wer: float
    entropy: float
    diagonal: float  # steps whose expected position moves ahead by at most a pause
    outside: float  # weight on annotations without speech, by the energy of the audio


class Row(NamedTuple):
    """A row of the table: a variant, its decoding, and the results of each seed."""

    variant: str
    decoding: str
    trainings: list[Training]
    scores: list[Scores]

    def __str__(self) -> str:
        return self.variant if self.decoding == AS_TRAINED else f"{self.variant}, {self.decoding}"


def read_dev(data: Path, overrides: Sequence[str]) -> Spoken:
    """Read the dev utterances of the config.

    Raises UserError if the settings or the data cannot be used.
    """
    config = load_config(CONFIG, overrides)
    assert isinstance(config, SpeechConfig)
    return read_spoken(SpeechData(config, data, CONFIG.parent).dev)


def training(folder: Path, data: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Train one run in its folder; raises as `train`."""
    seconds = train(CONFIG, folder, data, overrides)
    noted = validations(folder)
    return Training(noted[(len(noted) - 1) // 2]["cer"], seconds)._asdict()


def changed(loaded: LoadedModel, changes: Changes) -> LoadedModel:
    """Return a model with the same weights and changed attention settings."""
    attention = replace(loaded.settings.attention, **changes)
    settings = replace(loaded.settings, attention=attention)
    assert isinstance(loaded.engine, TorchEngine)
    model = build_speech_model(settings, len(loaded.vocabulary))
    model.load_state_dict(loaded.engine.model.state_dict())
    engine = TorchEngine(model.eval().requires_grad_(False))
    return replace(loaded, engine=engine, settings=settings)


def score(loaded: LoadedModel, dev: Spoken) -> Scores:
    """Transcribe the dev utterances greedily; measure the errors and the attention."""
    segments = decode_all(loaded, dev.pieces, GREEDY)
    entropies, outside = [torch.zeros(0)], [torch.zeros(0)]
    healths: list[health.Health] = []
    frames = round(loaded.seconds_per_annotation / SECONDS_PER_FRAME)
    for piece, segment in zip(dev.pieces, segments, strict=True):
        if len(segment.weights):
            weights = torch.from_numpy(segment.weights)
            entropies.append(entropy(weights))
            outside.append(share_outside(weights, piece, frames))
            healths.append(health.measure(weights))
    cer, wer = error_rates(dev.texts, segments)
    diagonal = health.aggregate(healths).total.mean.diagonal if healths else math.nan
    return Scores(
        cer=cer,
        wer=wer,
        entropy=float(torch.cat(entropies).mean()),
        diagonal=PER_CENT * diagonal,
        outside=PER_CENT * float(torch.cat(outside).mean()),
    )


def share_outside(weights: Tensor, piece: Piece, reduction: int) -> Tensor:
    """Return the share (U,) of each step's weights (U, T) on annotations without speech.

    reduction: frames per annotation. Speech is detected by `asr.audio.speech`, with a margin of
    100 ms; an annotation with at least one frame of speech counts as speech.
    """
    spoken = pool_mask(torch.from_numpy(piece.speech)[None], reduction)[0]  # (T,)
    return weights[:, ~spoken].sum(1)


def decode(folder: Path, changes: Changes, dev: Spoken) -> dict[str, Any]:
    """Score the model of a finished run with changed attention settings."""
    return score(
        changed(LoadedModel.load(folder / "model", runtime="torch"), changes), dev
    )._asdict()


def measure(folder: Path, variant: str, data: Path, overrides: list[str], dev: Spoken) -> list[Row]:
    """Train one model and decode with all its settings, except for results in its folder.

    Raises UserError if the folder holds results of other settings, or training fails.
    """
    trained = once(folder / "training.json", overrides, partial(training, folder, data, overrides))
    rows = []
    for name, changes in {AS_TRAINED: {}, **VARIANTS[variant].decodings}.items():
        file = folder / f"{name.replace(' ', '-')}.json"
        settings = [*overrides, *(f"{setting}={value}" for setting, value in changes.items())]
        found = once(file, settings, partial(decode, folder, changes, dev))
        rows.append(Row(variant, name, [Training(**trained)], [Scores(**found)]))
    return rows


def columns(figures: Sequence[NamedTuple]) -> list[tuple[str, list[float]]]:
    """Return the name of each field with its values over the seeds."""
    return [(name, [getattr(each, name) for each in figures]) for name in figures[0]._fields]


def table(rows: Sequence[Row]) -> str:
    """Return all results in Markdown; results of training are in the first row of a variant."""
    cells = []
    for row in rows:
        scored = [cell(values, DIGITS.get(name, 1)) for name, values in columns(row.scores)]
        trained: list[str | None] = [None] * len(Training._fields)
        if row.decoding == AS_TRAINED:
            trained = [cell(values, DIGITS.get(name, 1)) for name, values in columns(row.trainings)]
        cells.append((row.variant, row.decoding, *scored, *trained))
    scores = ("CER %", "WER %", "entropy, nats", "diagonal %", "outside speech %")
    return markdown_table(
        ("trained", "decoded", *scores, "CER % half-way", "training, CPU-s"), cells
    )


def picture(path: Path, rows: Sequence[Row]) -> None:
    """Draw CER and measures of the attention, for every seed."""
    titles = {
        "CER, %": "cer",
        "entropy of a step, nats": "entropy",
        "weight outside speech, %": "outside",
    }
    draw(path, panels(titles, {str(row): row.scores for row in rows}))


def main() -> None:
    """Read the arguments, train missing models, and write the table and the picture."""
    parser = argparse.ArgumentParser(description="Ablations on speech.")
    parser.add_argument("runs", type=Path, help="folder for the runs, the table and the picture")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    given = parser.parse_args()
    dev = read_dev(given.data, given.overrides)
    found: dict[tuple[str, str], list[Row]] = {}
    for seed, variant in product(given.seeds, given.variants):  # seeds in the outer loop
        folder = given.runs / f"{variant}-{seed}"
        overrides = [*given.overrides, *VARIANTS[variant].overrides, f"seed={seed}"]
        for row in measure(folder, variant, given.data, overrides, dev):
            found.setdefault((row.variant, row.decoding), []).append(row)
    rows = [
        Row(*name, [each.trainings[0] for each in seeds], [each.scores[0] for each in seeds])
        for name, seeds in found.items()
    ]
    publish(given.runs, "speech", table(rows), lambda path: picture(path, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
