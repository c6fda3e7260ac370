"""Data diversification: train on references and on translations by models of both directions.

    python recipes/multi30k/diversify.py RUNS --data FOLDER

trains teachers in both directions, translates the training text with each of them, and trains
RUNS/student-1 and so on with all resulting pairs: the original pairs, original sources with
translations by the forward teachers, and translations by the backward teachers with original
targets. Monolingual text is turned into pairs in the same way (--source-text, --target-text).
Students differ only in their seeds, so they can form an ensemble. The same command resumes an
interrupted run; finished runs in RUNS are used as they are, so they can be trained in parallel.

Source: Nguyen et al. 2020, "Data Diversification: A Simple Strategy For Neural Machine
Translation"; sequence-level distillation: Kim and Rush 2016; back-translation of target text:
Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual Data";
self-training on source text: He et al. 2020, "Revisiting Self-Training for Neural Sequence
Generation".
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr.commands.options import count
from asr.commands.output import replacing
from asr.corpora.pairs import Pair, read_parallel, read_sentences
from asr.errors import UserError, exit_status
from asr.inference.translator import Translator
from asr.text.lines import read_lines
from asr.training.config import TranslationConfig, load_config
from asr.training.journal import log_line
from asr.training.run import run_to_end

HERE = Path(__file__).parent


def teach(config: Path, folder: Path, data: Path, overrides: Sequence[str]) -> Path:
    """Return the model of a run, trained if necessary.

    Raises UserError if training fails.
    """
    return (
        model
        if (model := folder / "model").exists()
        else run_to_end(config, folder, data, overrides)
    )


def translate(model: Path, texts: list[str], file: Path, beam: int, penalty: float) -> list[str]:
    """Return a model's translations of the texts, from the file if it exists; else write it.

    Raises UserError if the file has a different number of lines.
    """
    if not file.exists():
        log_line(f"{file}: translating {len(texts)} sentences")
        translator = Translator.load(model)
        found = translator.translate(texts, beam=beam, length_penalty=penalty, whole=True)
        _write(file, [each.text for each in found])
    lines = [line.text for line in read_lines(file)]
    if len(lines) != len(texts):
        raise UserError(f"{file}: got {len(lines)} lines, wanted {len(texts)}; remove it")
    return lines


def read(config: Path, data: Path, overrides: Sequence[str]) -> list[Pair]:
    """Read the pairs that a config trains on.

    Raises UserError if it is not a translation config or has no parallel files.
    """
    settings = load_config(config, overrides)
    if not isinstance(settings, TranslationConfig) or not settings.data.train_target:
        raise UserError(f"{config}: wanted a translation recipe with data.train_target")
    return read_parallel(data / settings.data.train, data / settings.data.train_target)


def _write(file: Path, lines: Sequence[str]) -> None:
    """Write lines to a file atomically."""
    with replacing(file) as part:
        part.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def gather(given: argparse.Namespace) -> Iterator[Pair]:
    """Yield the original pairs, then those of each teacher, which is trained if necessary.

    Raises UserError if training fails or a file cannot be read.
    """
    pairs = read(given.forward, given.data, given.overrides)
    sources = _texts([pair.source for pair in pairs], given.source_text)
    targets = _texts([pair.target for pair in pairs], given.target_text)
    yield from pairs
    for seed in range(1, given.teachers + 1):
        for config, back in ((given.forward, False), (given.backward, True)):
            folder = given.runs / f"{config.stem}-{seed}"
            model = teach(config, folder, given.data, [*given.overrides, f"seed={seed}"])
            for name, texts in (targets if back else sources).items():
                file = folder / f"{name}.txt"
                made = translate(model, texts, file, given.beam, given.length_penalty)
                for text, its in zip(texts, made, strict=True):
                    if its:  # the translation may be empty
                        yield Pair(its, text) if back else Pair(text, its)


def _texts(people: list[str], files: Sequence[Path]) -> dict[str, list[str]]:
    """Return the texts to translate from one language: name of the output → sentences."""
    texts = {"translations": people}
    for file in files:
        if file.name in texts:
            raise UserError(f"{file}: two files have this name; rename one")
        texts[file.name] = read_sentences(file)
    return texts


def main() -> None:
    """Read the arguments and train missing models."""
    parser = argparse.ArgumentParser(description="Train on translations by several models.")
    parser.add_argument("runs", type=Path, help="a folder for all runs")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--forward", type=Path, default=HERE / "en-de.toml", metavar="CONFIG")
    parser.add_argument("--backward", type=Path, default=HERE / "de-en.toml", metavar="CONFIG")
    parser.add_argument("--teachers", type=count, default=2, metavar="N", help="each way")
    for side, way in (("source", "from"), ("target", "into")):
        parser.add_argument(
            f"--{side}-text",
            type=Path,
            nargs="+",
            default=[],
            metavar="FILE",
            help=f"sentences to translate {way}, one per line, plain or .gz",
        )
    parser.add_argument("--students", type=count, default=1, metavar="N")
    parser.add_argument(
        "--steps", type=count, default=12_000, metavar="N", help="steps of a student"
    )
    parser.add_argument("--beam", type=count, default=5, help="beam size of the teachers")
    parser.add_argument("--length-penalty", type=float, default=0.8)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    given = parser.parse_args()
    texts = [given.runs / f"student.{side}" for side in ("source", "target")]
    for file, side in zip(texts, zip(*gather(given), strict=True), strict=True):
        _write(file, side)
    names = ("train", "train_target")
    paths = [f"data.{name}={file.resolve()}" for name, file in zip(names, texts, strict=True)]
    overrides = [*given.overrides, *paths, f"training.steps={given.steps}"]
    for seed in range(1, given.students + 1):
        folder = given.runs / f"student-{seed}"
        print(teach(given.forward, folder, given.data, [*overrides, f"seed={seed}"]))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
