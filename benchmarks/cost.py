"""Measure all costs of asr in one run: a report, a file of figures, and a picture.

    python benchmarks/cost.py OUT --librispeech MANIFEST --data CORPORA [--ids IDS] [--every N]
    python benchmarks/cost.py OUT … --only search footprint

OUT/report.md has the table of each part below its command, OUT/figures.json the figures,
OUT/figures.png what can be drawn of them. A part that fails is named at the end, and the others are
kept. Each part is a process with one thread (OMP_NUM_THREADS), one after another: nothing else
should run. Without the peers (extra `peers`, SpeechBrain) their figures are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from asr.errors import UserError, exit_status

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "recipes" / "librispeech" / "shipped.toml"
LENGTHS = (10, 60, 600, 3600)


def commands(given: argparse.Namespace) -> dict[str, list[str]]:
    """Return the arguments of each part, without the output for its figures."""
    manifest, ids = str(given.librispeech), [] if given.ids is None else ["--ids", str(given.ids)]
    lengths = [str(each) for each in given.lengths]
    return {
        "step": ["training_step.py"],
        "search": ["search_cost.py"],
        "recognisers": ["recognisers.py", manifest, *ids, "--every", str(given.every)],
        "lengths": [
            "audio_length.py", manifest, *ids, "--window", "0.4,0.8", "--seconds", *lengths,
        ],
        "stages": ["training_stages.py", str(CONFIG), "--data", str(given.data)],
        "footprint": ["footprint.py"],
    }  # fmt: skip


def run(arguments: Sequence[str], figures: Path) -> tuple[int, str]:
    """Run a part; return its status and what it printed. figures: the file that it writes."""
    command = [sys.executable, str(HERE / arguments[0]), *arguments[1:], "--json", str(figures)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def bars(axes: Any, names: Sequence[str], values: dict[str, Sequence[float]], unit: str) -> None:
    """Draw a group of horizontal bars for each name, one of each series."""
    height = 0.8 / len(values)
    for at, (label, series) in enumerate(values.items()):
        places = [row + at * height for row in range(len(names))]
        drawn = axes.barh(places, series, height, label=label)
        axes.bar_label(drawn, fmt="%.3g", padding=2, fontsize=7)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(names))], names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(unit, fontsize=8)
    axes.margins(x=0.15)
    if len(values) > 1:
        axes.legend(fontsize=7)


def draw_step(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the decoder's training step beside the peer's."""
    values = {"asr": [row["cpu"] for row in rows]}
    if all(row["peer_cpu"] is not None for row in rows):
        values["SpeechBrain"] = [row["peer_cpu"] for row in rows]
    bars(axes, [f"{row['size']}: {row['case']}" for row in rows], values, "CPU s")
    axes.set_title("training step of the decoder")


def draw_search(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the search beside the peer's."""
    values = {"asr": [row["ours"] for row in rows]}
    if all(row["peer"] is not None for row in rows):
        values["SpeechBrain"] = [row["peer"] for row in rows]
    names = [f"{row['attention']}, beam {row['beam']}, {row['together']} together" for row in rows]
    bars(axes, names, values, "CPU ms an utterance of 8 s")
    axes.set_title("search without language model")


def draw_recognisers(axes: Any, lists: list[dict[str, dict[str, float]]]) -> None:
    """Draw errors against cost, a point for each recogniser of the first list."""
    for name, figures in lists[0].items():
        axes.scatter(figures["cpu"], 100 * figures["wer"])
        axes.annotate(
            name, (figures["cpu"], 100 * figures["wer"]), fontsize=7, xytext=(3, 3),
            textcoords="offset points",
        )  # fmt: skip
    axes.set_xlabel("CPU s a second of audio", fontsize=8)
    axes.set_ylabel("WER, %", fontsize=8)
    axes.margins(0.2)
    axes.set_title("recognisers")


def draw_lengths(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the cost a second against the length of a recording."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = row["search"] + (", window" if row["window"] else "")
        lines.setdefault(name, []).append((row["length"], row["seconds"] / row["length"]))
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xscale("log")
    axes.set_ylim(0)
    axes.set_xlabel("seconds of audio", fontsize=8)
    axes.set_ylabel("CPU s a second", fontsize=8)
    axes.legend(fontsize=7)
    axes.set_title("length of a recording")


def draw_stages(axes: Any, found: dict[str, Any]) -> None:
    """Draw the parts of a training step beside their lower bounds."""
    audio, speed = found["audio"], found["rate"]
    values = {
        "measured": [1000 * each / audio for each in found["seconds"].values()],
        "matrix products alone": [
            1000 * found["operations"].get(name, 0) / speed / audio for name in found["seconds"]
        ],
    }
    bars(axes, list(found["seconds"]), values, "CPU ms a second of audio")
    axes.set_title("training step of a recogniser")


def draw_footprint(axes: Any, found: dict[str, Any]) -> None:
    """Draw what is installed."""
    large = sorted(found["packages"].items(), key=lambda item: -item[1])[:8]
    bars(axes, [name for name, _ in large], {"MB": [size for _, size in large]}, "MB installed")
    axes.set_title(f"installation, {sum(found['packages'].values()):.0f} MB")


DRAWINGS: dict[str, Callable[[Any, Any], None]] = {
    "step": draw_step,
    "search": draw_search,
    "recognisers": draw_recognisers,
    "lengths": draw_lengths,
    "stages": draw_stages,
    "footprint": draw_footprint,
}


def draw(figures: dict[str, Any], file: Path) -> None:
    """Draw the figures of all parts to a picture."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(13, 4 * -(-len(figures) // 2)), layout="constrained")
    places = picture.subplots(-(-len(figures) // 2), 2, squeeze=False).flat
    for (name, found), axes in zip(figures.items(), places, strict=False):
        DRAWINGS[name](axes, found)
    for axes in list(places)[len(figures) :]:
        axes.remove()
    picture.savefig(file, dpi=100)


def main() -> int:
    """Read the arguments, run the parts, and write report, figures and picture."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("--librispeech", type=Path, required=True, help="manifest to transcribe")
    parser.add_argument("--data", type=Path, required=True, help="folder of the recipe's corpora")
    parser.add_argument("--ids", type=Path, help="use only these ids, one a line")
    parser.add_argument("--every", type=int, default=16, help="use every N-th (default: 16)")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="in seconds")
    parser.add_argument("--only", nargs="+", choices=DRAWINGS, default=list(DRAWINGS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    report, figures, failed = [], {}, []
    for name, arguments in commands(given).items():
        if name not in given.only:
            continue
        print(f"{name} …", file=sys.stderr)
        file = given.out / f"{name}.json"
        status, printed = run(arguments, file)
        report.append(f"    python benchmarks/{shlex.join(arguments)}\n\n{printed.strip()}\n")
        if status or not file.exists():
            failed.append(name)
        else:
            figures[name] = json.loads(file.read_text())
        (given.out / "report.md").write_text("\n".join(report))
    if not figures:
        raise UserError(f"no part could be measured: {', '.join(failed)}")
    (given.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    draw(figures, given.out / "figures.png")
    if failed:
        raise UserError(f"not measured: {', '.join(failed)}; the rest is in {given.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
