"""Install the package anew, and measure its size, its start and its memory.

    python benchmarks/footprint.py [--python python3.13] [--extras onnx] [--model english-int8]
    python benchmarks/footprint.py --checkout BEFORE

A virtual environment is made in a temporary folder, and the checkout (or another one) installed
there with the versions of its constraints.txt. Commands then run as separate processes, each three
times after once unmeasured, which compiles the modules: the table has the median of their CPU
seconds (user and system, from start to end) and their largest peak of resident memory. Threads:
OMP_NUM_THREADS, as for the commands themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from asr.errors import UserError, exit_status
from asr.render.tables import text_table

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "data" / "speech" / "5683-32866-0027.flac"
OF_THE_TOOL = ("pip", "setuptools")  # installed with every environment, and not needed
REPEATS = 3


class Cost(NamedTuple):
    """Of a process: CPU seconds, and peak of resident memory in MB."""

    seconds: float
    megabytes: float


def install(python: str, extras: str, folder: Path, checkout: Path = ROOT) -> Path:
    """Install a checkout into a new environment, and return its interpreter.

    Raises:
        UserError: it fails, with the last line that pip wrote.
    """
    what = f"{checkout}[{extras}]" if extras else str(checkout)
    inside = folder / "bin" / "python"
    versions = str(checkout / "constraints.txt")
    for command in (
        [python, "-m", "venv", str(folder)],
        [str(inside), "-m", "pip", "install", "--quiet", "-c", versions, what],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise UserError(f"{' '.join(command)}: {''.join(last)}")
    return inside


def sizes(folder: Path) -> list[tuple[str, float]]:
    """Return the megabytes of each package of an environment, largest first."""
    (packages,) = folder.glob("lib/python*/site-packages")
    found: dict[str, float] = {}
    for each in packages.iterdir():
        name = each.name.partition(".")[0].partition("-")[0]
        if name not in OF_THE_TOOL:
            found[name] = found.get(name, 0) + megabytes(each)
    return sorted(found.items(), key=lambda item: -item[1])


def megabytes(path: Path) -> float:
    """Return the size of a file, or of all files of a folder; compiled Python is not counted."""
    files = [path] if path.is_file() else path.rglob("*")
    counted = (each for each in files if each.is_file() and each.suffix != ".pyc")
    return sum(each.stat().st_size for each in counted) / 1e6


def cost(command: Sequence[str]) -> Cost:
    """Run a command and return its cost.

    Raises:
        UserError: its exit status is not 0.
    """
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=os.sep) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UserError(f"{' '.join(command)}: exit status {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def commands(python: Path, model: str | None, recording: Path) -> dict[str, list[str]]:
    """Return the commands to measure."""
    asr = [str(python), "-P", "-m", "asr"]
    transcribe = [*asr, "transcribe", str(recording), *([] if model is None else ["-m", model])]
    return {
        "asr --version": [*asr, "--version"],
        "greedy": [*transcribe, "--beam", "1"],
        "default": transcribe,
    }


def main() -> None:
    """Read the arguments, install, measure, and print two tables."""
    parser = argparse.ArgumentParser(description="Measure an installation.")
    parser.add_argument("--python", default=sys.executable, help="interpreter to install for")
    parser.add_argument("--extras", default="", help="such as onnx (default: none)")
    parser.add_argument("--model", help="folder, or name (default: that of asr transcribe)")
    parser.add_argument("--recording", type=Path, default=RECORDING)
    parser.add_argument(
        "--checkout", type=Path, default=ROOT, help="what is installed (default: this one)"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    model = arguments.model
    if model is not None and Path(model).exists():  # the commands run in another folder
        model = str(Path(model).resolve())
    os.environ.pop("PYTHONPATH", None)  # the installed package is measured, …
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # … compiled, as it is after its first use
    with TemporaryDirectory() as folder:
        checkout = arguments.checkout.resolve()
        python = install(arguments.python, arguments.extras, Path(folder), checkout)
        found = sizes(Path(folder))
        rows = [(name, f"{size:.1f}") for name, size in found if size >= 0.5]
        rows.append(("all", f"{sum(size for _, size in found):.1f}"))
        print(text_table(("package", "MB"), rows))
        rows, figures = [], {}
        for name, command in commands(python, model, arguments.recording.resolve()).items():
            costs = [cost(command) for _ in range(REPEATS + 1)][1:]  # the first one compiles
            seconds = statistics.median(each.seconds for each in costs)
            peak = max(each.megabytes for each in costs)
            rows.append((name, f"{seconds:.2f}", f"{peak:.0f}"))
            figures[name] = Cost(seconds, peak)._asdict()
        print(text_table(("command", "CPU s", "peak MB"), rows))
    if arguments.json is not None:
        content = {"packages": dict(found), "commands": figures}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
