"""Attention kinds and decoder cells on translation: BLEU, also by length, CPU time, parameters.

    python recipes/ablations/kinds.py recipes/fra_eng/words.toml RUNS \\
        --kinds additive general fixed --cells gru lstm

trains the config once for each kind, cell and seed, each in a separate folder in RUNS, translates
the dev sentences of the config, and writes RUNS/kinds.md and RUNS/kinds.png. --changes also trains
variants of each model: without some paths of the decoder (see paths.py), with another normaliser,
or with another query. Finished runs are not trained again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from paths import CUTS
from runs import cpu_seconds, once, publish
from summary import cell, draw, panels

from asr.attention import KINDS
from asr.commands.options import count
from asr.errors import UserError, exit_status
from asr.inference.translator import Translator
from asr.models.cells import CELLS
from asr.render.tables import markdown_table
from asr.runtime.torch_engine import TorchTextEngine
from asr.scoring.bleu import score
from asr.training.config import TranslationConfig, load_config
from asr.training.run import run_to_end
from asr.training.tasks.translation_data import TranslationData

RESULT = "result.json"  # in the folder of a run

# name → overrides of the config
CHANGES: dict[str, dict[str, Any]] = {
    cut: {f"model.decoder.{name}": value for name, value in settings.items()}
    for cut, settings in CUTS.items()
} | {
    "sharpened": {"model.attention.temperature": 0.5},
    "smoothed": {"model.attention.normalizer": "smoothed"},
    "top-3": {"model.attention.normalizer": "top_k", "model.attention.top_k": 3},
    "hard": {"model.attention.normalizer": "hard"},
    "four-heads": {"model.attention.heads": 4},
    "query-before": {"model.decoder.attend": "before"},
    "query-after": {"model.decoder.attend": "after"},
    "input-feeding": {"model.decoder.attend": "after", "model.decoder.input_feeding": True},
    "self-attention": {"model.encoder.attention_layers": 1},
    "entropy-penalty": {"loss.entropy": 0.01},
    "coverage-penalty": {"loss.coverage": 0.1},
    "scheduled-sampling": {"loss.scheduled_sampling": 0.2},
}


class Variant(NamedTuple):
    """A row of the table: the names of an attention, of a decoder cell and of a change."""

    kind: str
    cell: str
    change: str

    def overrides(self) -> list[str]:
        """Return the overrides of the config, as for `asr train --set`."""
        return [
            f'model.attention.kind="{self.kind}"',
            f'model.decoder.cell="{self.cell}"',
            *(f"{key}={json.dumps(value)}" for key, value in CHANGES[self.change].items()),
        ]

    def __str__(self) -> str:
        return ", ".join(self if self.change != "full" else self[:2])


class Dev(NamedTuple):
    """The dev sentences, all references of each, and whether they are tokenised."""

    sources: list[str]
    references: list[tuple[str, ...]]
    tokens: bool


class Figures(NamedTuple):
    """Results of one run. by_length: [source words, BLEU] of each bucket."""

    bleu: float
    by_length: list[tuple[str, float]]
    training: float  # CPU-seconds, from reading the data to the model folder
    decoding: float  # CPU-seconds, for all dev sentences
    parameters: int


def read_dev(config_file: Path, data: Path | None, overrides: Sequence[str]) -> Dev:
    """Read the dev sentences of a config.

    Raises UserError if it is not a translation config or its data cannot be used.
    """
    config = load_config(config_file, overrides)
    if not isinstance(config, TranslationConfig):
        raise UserError(f'{config_file}: got task = "{config.task}", wanted "translation"')
    read = TranslationData(config, data or config_file.parent, config_file.parent)
    tokens = read.by_words or config.data.tokenised
    return Dev([each.source for each in read.dev], [each.references for each in read.dev], tokens)


def measure(
    config: Path, folder: Path, data: Path | None, overrides: list[str], dev: Dev, beam: int
) -> Figures:
    """Train and score one model, unless its folder holds the results.

    Raises UserError if the folder holds a run with other settings, or training fails.
    """
    settings = [config.name, *overrides, f"beam={beam}"]

    def make() -> dict[str, Any]:
        before = cpu_seconds()
        translator = Translator.load(run_to_end(config, folder, data, overrides), runtime="torch")
        (engine,) = translator.engines
        assert isinstance(engine, TorchTextEngine)
        training = cpu_seconds() - before
        before_decoding = time.process_time()
        texts = [each.text for each in translator.translate(dev.sources, beam=beam, whole=True)]
        decoding = time.process_time() - before_decoding
        return Figures(
            bleu=bleu(dev, texts),
            by_length=by_length(dev, texts),
            training=training,
            decoding=decoding,
            parameters=sum(each.numel() for each in engine.model.parameters()),
        )._asdict()

    return Figures(**once(folder / RESULT, settings, make))


def bleu(dev: Dev, texts: Sequence[str]) -> float:
    """Return BLEU of all sentences, in the convention for their form."""
    found = score(dev.references, texts)
    return found.lowercase if dev.tokens else found.bleu


def by_length(dev: Dev, texts: Sequence[str]) -> list[tuple[str, float]]:
    """Return the name and BLEU of each bucket of source length that is not empty."""
    buckets = score(dev.references, texts, dev.sources).by_length
    return [(each.name, each.lowercase if dev.tokens else each.bleu) for each in buckets]


def tables(results: dict[Variant, list[Figures]]) -> str:
    """Return a table of all results and one of BLEU by length, in Markdown."""
    whole, lengths = [], []
    for variant, seeds in results.items():
        figures = [
            cell([getattr(each, name) for each in seeds], digits)
            for name, digits in (("bleu", 1), ("training", 1), ("decoding", 2))
        ]
        whole.append((*variant, *figures, seeds[0].parameters))
        buckets = zip(*(each.by_length for each in seeds), strict=True)
        lengths.append((*variant, *(cell([value for _, value in each], 1) for each in buckets)))
    names = [name for name, _ in next(iter(results.values()))[0].by_length]
    shared = ("attention", "cell", "change")
    timed = ("training, CPU-s", "decoding, CPU-s")
    return "\n\n".join(
        (
            markdown_table((*shared, "BLEU", *timed, "parameters"), whole),
            "BLEU by source length in words:",
            markdown_table((*shared, *names), lengths),
        )
    )


def picture(path: Path, results: dict[Variant, list[Figures]]) -> None:
    """Draw the BLEU and both times of every seed."""
    titles = {
        "BLEU": "bleu",
        "training, CPU-seconds": "training",
        "decoding, CPU-seconds": "decoding",
    }
    draw(path, panels(titles, {str(variant): seeds for variant, seeds in results.items()}))


def main() -> None:
    """Read the arguments, train missing models, and write the tables and the picture."""
    parser = argparse.ArgumentParser(
        description="Compare attention kinds and cells on translation."
    )
    parser.add_argument("config", type=Path, help="config that all runs share")
    parser.add_argument("runs", type=Path, help="folder for the runs, the table and the picture")
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["additive", "fixed"])
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=["full"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--beam", type=count, default=4)
    given = parser.parse_args()
    dev = read_dev(given.config, given.data, given.overrides)
    results: dict[Variant, list[Figures]] = {}
    for variant, seed in product(
        map(Variant._make, product(given.kinds, given.cells, given.changes)), given.seeds
    ):
        folder = given.runs / "-".join((*variant, str(seed)))
        overrides = [*given.overrides, *variant.overrides(), f"seed={seed}"]
        found = measure(given.config, folder, given.data, overrides, dev, given.beam)
        results.setdefault(variant, []).append(found)
    publish(given.runs, "kinds", tables(results), lambda path: picture(path, results))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
