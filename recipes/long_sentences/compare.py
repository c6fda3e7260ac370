"""Compare attention with a fixed context on long sentences: BLEU by sentence length.

    python recipes/long_sentences/compare.py RUNS

prepares the pairs in RUNS/data (sentences.py), trains long_sentences.toml once for each attention
kind and seed, translates the test sentences, and writes RUNS/lengths.md and RUNS/lengths.png.
Finished runs are not trained again.

Source: figure 2 of Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align
and Translate", on an artificial language, so that a model trains in two minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sentences import prepare

from asr.attention import KINDS
from asr.commands.options import count
from asr.corpora.pairs import read_pairs
from asr.errors import exit_status

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "ablations"))  # for the table and the picture
from lengths import Part, Row, measure, picture, table  # noqa: E402
from runs import once, publish, train  # noqa: E402
from summary import cell  # noqa: E402

CONFIG = HERE / "long_sentences.toml"
LENGTHS = (11, 23, 35, 47)  # upper ends of the buckets in words: 2, 4, 6 and 8 clauses
NAMES = {"fixed": "fixed context"}  # names of attention kinds in the picture; default: the kind


def training(folder: Path, data: Path, overrides: Sequence[str]) -> float:
    """Train one model unless its folder exists; return the CPU-seconds of training.

    Raises UserError if the folder holds a run with other settings.
    """
    settings = [CONFIG.name, *overrides]
    made = once(
        folder / "result.json", settings, lambda: {"cpu": train(CONFIG, folder, data, settings[1:])}
    )
    return float(made["cpu"])


def main() -> None:
    """Read the arguments, train missing models, and write the table and the picture."""
    parser = argparse.ArgumentParser(description="Compare attention with a fixed context.")
    parser.add_argument("runs", type=Path, help="a folder for data, runs, table and picture")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["additive", "fixed"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--train", type=count, default=12_000, help="pairs (default: 12000)")
    parser.add_argument("--test", type=count, default=1000, help="pairs (default: 1000)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    given = parser.parse_args()
    given.beam, given.length_penalty, given.lengths, given.fewest = 1, 1.0, LENGTHS, 1
    data = given.runs / "data"
    prepare(data, given.train, given.test, seed=0)
    pairs, rows, times = read_pairs(data / "test.tsv"), [], []
    for kind in given.kinds:
        folders = [given.runs / f"{kind}-{seed}" for seed in given.seeds]
        seconds = [
            training(
                folder, data, [*given.overrides, f'model.attention.kind="{kind}"', f"seed={seed}"]
            )
            for folder, seed in zip(folders, given.seeds, strict=True)
        ]
        name = NAMES.get(kind, kind)
        times.append(f"{name} {cell(seconds, 0)}")
        rows.append(Row(name, [measure(str(folder / "model"), pairs, given) for folder in folders]))
    part = Part(1, len(pairs), rows)
    text = f"{table(part)}\n\nCPU-seconds of training: {', '.join(times)}"
    publish(given.runs, "lengths", text, lambda path: picture(path, [part]))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
