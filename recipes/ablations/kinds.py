"""Attention kinds and decoder cells, on speech or translation: scores, CPU time, parameters.

    python recipes/ablations/kinds.py recipes/fra_eng/words.toml RUNS \\
        --kinds additive general fixed --cells gru lstm

trains the config once for each kind, cell and seed, each in a separate folder in RUNS, decodes the
dev set of the config, and writes RUNS/kinds.md and RUNS/kinds.png: WER and CER of a recogniser,
BLEU of a translator, also by length. A kind may have keys of [model.attention] of its own, such as
"local,local_reach=5", so that several of its settings can be compared. --changes also trains
variants of each model: without some paths of the decoder (see paths.py), with another normaliser,
or with another query. Finished runs are not trained again.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from dev_scores import DevSet, read_dev_set
from paths import CUTS
from runs import cpu_seconds, once, publish
from summary import cell, draw, panels

from asr.attention import KINDS
from asr.commands.options import add_overrides, count
from asr.errors import exit_status
from asr.models.cells import CELLS
from asr.render.tables import markdown_table
from asr.training.run import run_to_end

RESULT = "scores.json"  # in the folder of a run

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
    """A row of the table: an attention and its keys, a decoder cell and the name of a change."""

    kind: str
    cell: str
    change: str

    def overrides(self) -> list[str]:
        """Return the overrides of the config, as for `asr train --set`."""
        kind, *keys = self.kind.split(",")
        return [
            f'model.attention.kind="{kind}"',
            *(f"model.attention.{each}" for each in keys),
            f'model.decoder.cell="{self.cell}"',
            *(f"{key}={json.dumps(value)}" for key, value in CHANGES[self.change].items()),
        ]

    def __str__(self) -> str:
        return ", ".join(self if self.change != "full" else self[:2])


class Figures(NamedTuple):
    """Results of one run; see `dev_scores.Scores`.

    training: CPU-seconds, from reading the data to the model folder.
    """

    scores: dict[str, float]
    by_length: list[tuple[str, float]]
    training: float
    decoding: float
    parameters: int


def measure(
    config: Path, folder: Path, data: Path | None, overrides: list[str], dev: DevSet, beam: int
) -> Figures:
    """Train and score one model, unless its folder holds the results.

    Raises UserError if the folder holds a run with other settings, or training fails.
    """
    settings = [config.name, *overrides, f"beam={beam}"]

    def make() -> dict[str, Any]:
        before = cpu_seconds()
        model = run_to_end(config, folder, data, overrides)
        training = cpu_seconds() - before
        return {**dev.score(model, beam)._asdict(), "training": training}

    return Figures(**once(folder / RESULT, settings, make))


def tables(results: dict[Variant, list[Figures]]) -> str:
    """Return a table of all results and, if known, one of the main score by length, in Markdown."""
    whole, lengths = [], []
    for variant, seeds in results.items():
        scores = [cell([each.scores[name] for each in seeds], 1) for name in seeds[0].scores]
        training = cell([each.training for each in seeds], 1)
        decoding = cell([each.decoding for each in seeds], 2)
        whole.append((*variant, *scores, training, decoding, seeds[0].parameters))
        buckets = zip(*(each.by_length for each in seeds), strict=True)
        lengths.append((*variant, *(cell([value for _, value in each], 1) for each in buckets)))
    first = next(iter(results.values()))[0]
    shared = ("attention", "cell", "change")
    timed = ("training, CPU-s", "decoding, CPU-s")
    table = markdown_table((*shared, *first.scores, *timed, "parameters"), whole)
    if not first.by_length:
        return table
    by_length = markdown_table((*shared, *(name for name, _ in first.by_length)), lengths)
    return f"{table}\n\n{next(iter(first.scores))} by source length in words:\n\n{by_length}"


def picture(path: Path, results: dict[Variant, list[Figures]]) -> None:
    """Draw the main score and both times of every seed."""
    main_score = next(iter(next(iter(results.values()))[0].scores))
    drawn = {
        str(variant): [_Drawn(run.scores[main_score], run.training, run.decoding) for run in seeds]
        for variant, seeds in results.items()
    }
    titles = {
        main_score: "score",
        "training, CPU-seconds": "training",
        "decoding, CPU-seconds": "decoding",
    }
    draw(path, panels(titles, drawn))


class _Drawn(NamedTuple):
    """The values of one run that the picture shows."""

    score: float
    training: float
    decoding: float


def _kind(text: str) -> str:
    """Return a kind and its keys as they are given; raise ArgumentTypeError for an unknown kind."""
    name = text.split(",")[0]
    if name not in KINDS:
        raise argparse.ArgumentTypeError(f"got {name!r}, wanted one of {', '.join(KINDS)}")
    return text


def main() -> None:
    """Read the arguments, train missing models, and write the tables and the picture."""
    parser = argparse.ArgumentParser(
        description="Compare attention kinds and cells on speech or translation."
    )
    parser.add_argument("config", type=Path, help="config that all runs share")
    parser.add_argument("runs", type=Path, help="folder for the runs, the table and the picture")
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument(
        "--kinds",
        nargs="+",
        type=_kind,
        default=["additive", "fixed"],
        metavar="KIND[,KEY=VALUE]",
        help=f"attention kinds (default: additive fixed): {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--cells",
        nargs="+",
        choices=CELLS,
        default=list(CELLS),
        help="decoder cells (default: all)",
    )
    parser.add_argument(
        "--changes",
        nargs="+",
        choices=CHANGES,
        default=["full"],
        help="other changes to the model (default: full, which is none)",
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[1, 2, 3], help="a run for each (default: 1 2 3)"
    )
    add_overrides(parser, "change a key of the config in all runs")
    parser.add_argument("--beam", type=count, default=4, help="beam size (default: 4)")
    given = parser.parse_args()
    dev = read_dev_set(given.config, given.data, given.overrides)
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
