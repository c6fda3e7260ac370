"""Compare trained models by source length: BLEU on short and long sentences.

    python recipes/ablations/lengths.py OUTPUT --model additive runs/additive-{1,2,3}/model \\
        --model "fixed context" runs/fixed-{1,2,3}/model --source test.en … --reference test.de …

writes OUTPUT/lengths.md and OUTPUT/lengths.png: a row and a curve for each --model, which takes a
name and the model folders of its seeds, scored separately. Several test sets are scored as one.
--join 1 2 3 also scores lines of two and three joined sentences, which are longer than in training.

Source: figure 2 of Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align
and Translate", which is drawn there for attention (RNNsearch) and a fixed context (RNNencdec).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from runs import publish
from summary import MARKS, cell, save

from asr.commands.options import count
from asr.corpora.pairs import Pair, read_parallel
from asr.errors import UserError, exit_status
from asr.inference.translator import Translator
from asr.render.tables import markdown_table
from asr.scoring.bleu import LENGTHS, Bleu, score

PANEL = (5.0, 3.4)  # inches


class Row(NamedTuple):
    """Models that differ only in their seed, and their scores."""

    name: str
    seeds: Sequence[Bleu]

    def whole(self) -> list[float]:
        """Return the BLEU of every seed over all lengths."""
        return [each.bleu for each in self.seeds]

    def by_length(self) -> list[list[float]]:
        """Return the BLEU of every seed for each bucket."""
        buckets = zip(*(each.by_length for each in self.seeds), strict=True)
        return [[each.bleu for each in bucket] for bucket in buckets]


class Part(NamedTuple):
    """A test set and its rows. joined: number of sentences per line."""

    joined: int
    lines: int
    rows: Sequence[Row]

    def __str__(self) -> str:
        return f"{self.joined} joined sentences" if self.joined > 1 else "single sentences"

    def buckets(self) -> list[tuple[str, int]]:
        """Return the name of each bucket, in source words, and its number of lines."""
        return [(each.name, each.sentences) for each in self.rows[0].seeds[0].by_length]


def join(pairs: Sequence[Pair], number: int) -> list[Pair]:
    """Join each `number` consecutive pairs to one; an incomplete last group is dropped."""
    starts = range(0, len(pairs) - number + 1, number)
    groups = [pairs[start : start + number] for start in starts]
    return [Pair(*(" ".join(side) for side in zip(*group, strict=True))) for group in groups]


def measure(folder: str, pairs: Sequence[Pair], given: argparse.Namespace) -> Bleu:
    """Translate all pairs with one model and score it; small buckets are left out."""
    sources, references = zip(*pairs, strict=True)
    translations = Translator.load(folder).translate(
        list(sources), beam=given.beam, length_penalty=given.length_penalty, whole=True
    )
    found = score(references, [each.text for each in translations], sources, given.lengths)
    shown = tuple(each for each in found.by_length if each.sentences >= given.fewest)
    return replace(found, by_length=shown)


def table(part: Part) -> str:
    """Return BLEU overall and by bucket in Markdown, as mean and deviation over seeds."""
    rows = [
        (row.name, *(cell(values, 1) for values in (row.whole(), *row.by_length())))
        for row in part.rows
    ]
    buckets = part.buckets()
    counts = ("*lines*", part.lines, *(lines for _, lines in buckets))
    names = (name for name, _ in buckets)
    heading = f"BLEU by source length in words, {part}:"
    return f"{heading}\n\n{markdown_table(('', 'all', *names), [*rows, counts])}"


def picture(path: Path, parts: Sequence[Part]) -> None:
    """Draw a panel for each part: a curve of the means of each row, a point for each seed.

    Raises UserError if the picture cannot be written.
    """
    width, height = PANEL
    figure = Figure(figsize=(width * len(parts), height), layout="constrained")
    axes = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for axis, part in zip(axes, parts, strict=True):
        _draw(axis, part)
    axes[0].set_ylabel("BLEU", fontsize=9)
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=9)
    save(figure, path)


def _draw(axis: Axes, part: Part) -> None:
    buckets = part.buckets()
    places = range(len(buckets))
    for number, row in enumerate(part.rows):
        mark, colour = MARKS[number % len(MARKS)]
        values = row.by_length()
        axis.plot(places, [mean(each) for each in values], "-", color=colour, label=row.name)
        for place, each in zip(places, values, strict=True):
            axis.plot([place] * len(each), each, mark, color=colour, ms=4.5, alpha=0.8, mew=0)
    axis.set_xticks(places, [f"{name}\n({lines})" for name, lines in buckets])
    axis.set_title(str(part), fontsize=10, loc="left")
    axis.set_xlabel("source words (number of lines)", fontsize=9)
    axis.tick_params(labelsize=9)
    axis.grid(axis="y", color="0.9")


def main() -> None:
    """Read the arguments, translate, and write the tables and the picture."""
    parser = argparse.ArgumentParser(description="BLEU by source length.")
    parser.add_argument("output", type=Path, help="folder for the tables and the picture")
    parser.add_argument("--model", action="append", nargs="+", required=True,
                        metavar="NAME FOLDER", help="a name, then model folders")  # fmt: skip
    parser.add_argument("--source", nargs="+", required=True, help="test sets, a sentence a line")
    parser.add_argument("--reference", nargs="+", required=True, help="their translations")
    parser.add_argument("--lengths", nargs="+", type=count, default=LENGTHS,
                        help="upper ends of the buckets, in words")  # fmt: skip
    parser.add_argument("--fewest", type=count, default=1, help="fewest lines of a bucket")
    parser.add_argument("--join", nargs="+", type=count, default=[1], help="sentences per line")
    parser.add_argument("--beam", type=count, default=5)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    given = parser.parse_args()
    if any(len(each) < 2 for each in given.model):
        parser.error("--model wants a name and at least one model folder")
    if sorted(set(given.lengths)) != list(given.lengths):
        parser.error(f"--lengths wants ascending numbers, got {' '.join(map(str, given.lengths))}")
    if len(given.source) != len(given.reference):
        parser.error(f"got {len(given.source)} --source and {len(given.reference)} --reference")
    sets = [read_parallel(*files) for files in zip(given.source, given.reference, strict=True)]
    parts = []
    for joined in given.join:
        pairs = [pair for each in sets for pair in join(each, joined)]
        if not pairs:
            raise UserError(f"no test set has {joined} sentences to join")
        rows = [
            Row(name, [measure(folder, pairs, given) for folder in folders])
            for name, *folders in given.model
        ]
        parts.append(Part(joined, len(pairs), rows))
    given.output.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(map(table, parts))
    publish(given.output, "lengths", text, lambda path: picture(path, parts))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
