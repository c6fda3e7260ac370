"""One model that learns from several of both directions, and from the references.

    python recipes/multi30k/diversify.py RUNS --data FOLDER

trains some teachers each way, lets each translate the training text of its own source language,
and trains RUNS/student on all pairs that this gives: people's own, people's sources with what the
teachers made of them, and what the teachers back made of people's targets with these targets. A
command that is stopped goes on where it was.

Source: Nguyen et al. 2020, "Data Diversification: A Simple Strategy For Neural Machine
Translation"; learning from translations of a model: Kim and Rush 2016.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr.commands.options import count
from asr.commands.output import replacing
from asr.corpora.pairs import Pair, read_parallel
from asr.errors import UserError, exit_status
from asr.training.config import TranslationConfig, load_config
from asr.training.loop import tell
from asr.training.run import run
from asr.translator import Translator

HERE = Path(__file__).parent


def teach(config: Path, folder: Path, data: Path, overrides: Sequence[str]) -> Path:
    """Return the model of a run, which is trained unless that is done.

    Raises UserError when the run cannot be made.
    """
    return model if (model := folder / "model").exists() else run(config, folder, data, overrides)


def translate(model: Path, texts: list[str], file: Path, beam: int, penalty: float) -> list[str]:
    """Return what a model makes of the texts, from the file that holds it or is now made."""
    if not file.exists():
        tell(f"{file}: {len(texts)} sentences are translated")
        translator = Translator.load(model)
        found = translator.translate(texts, beam=beam, length_penalty=penalty, whole=True)
        _write(file, [each.text for each in found])
    return file.read_text("utf-8").split("\n")[:-1]


def read(config: Path, data: Path, overrides: Sequence[str]) -> list[Pair]:
    """Read the pairs that a config trains on.

    Raises UserError when it is not of translation or its files are not parallel.
    """
    settings = load_config(config, overrides)
    if not isinstance(settings, TranslationConfig) or not settings.data.train_target:
        raise UserError(f"{config}: wanted a recipe of translation with data.train_target")
    return read_parallel(data / settings.data.train, data / settings.data.train_target)


def _write(file: Path, lines: Sequence[str]) -> None:
    """Write lines to a file that is there only when it is whole."""
    with replacing(file) as part:
        part.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def gather(given: argparse.Namespace) -> Iterator[Pair]:
    """Give people's pairs, then those of each teacher, which is trained first if need be.

    Raises UserError when a run cannot be made.
    """
    pairs = read(given.forward, given.data, given.overrides)
    yield from pairs
    for seed in range(1, given.teachers + 1):
        for config, back in ((given.forward, False), (given.backward, True)):
            folder = given.runs / f"{config.stem}-{seed}"
            model = teach(config, folder, given.data, [*given.overrides, f"seed={seed}"])
            sources = [pair.target if back else pair.source for pair in pairs]
            file = folder / "translations.txt"
            made = translate(model, sources, file, given.beam, given.length_penalty)
            for pair, text in zip(pairs, made, strict=True):
                if text:  # a teacher may have nothing to say
                    yield Pair(text, pair.target) if back else Pair(pair.source, text)


def main() -> None:
    """Read the arguments, and train what is not trained yet."""
    parser = argparse.ArgumentParser(description="One model that learns from several.")
    parser.add_argument("runs", type=Path, help="a folder for all runs")
    parser.add_argument("--data", type=Path, required=True, help="what the configs' paths start at")
    parser.add_argument("--forward", type=Path, default=HERE / "en-de.toml", metavar="CONFIG")
    parser.add_argument("--backward", type=Path, default=HERE / "de-en.toml", metavar="CONFIG")
    parser.add_argument("--teachers", type=count, default=2, metavar="N", help="each way")
    parser.add_argument("--steps", type=count, default=12_000, metavar="N", help="of the student")
    parser.add_argument("--beam", type=count, default=5, help="of the teachers")
    parser.add_argument("--length-penalty", type=float, default=0.8)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    given = parser.parse_args()
    texts = [given.runs / f"student.{side}" for side in ("source", "target")]
    if not all(file.exists() for file in texts):
        for file, side in zip(texts, zip(*gather(given), strict=True), strict=True):
            _write(file, side)
    names = ("train", "train_target")
    paths = [f"data.{name}={file.resolve()}" for name, file in zip(names, texts, strict=True)]
    overrides = [*given.overrides, *paths, f"training.steps={given.steps}"]
    print(teach(given.forward, given.runs / "student", given.data, overrides))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
