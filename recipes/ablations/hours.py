"""Measure the effect of the amount of training speech on the error rate of a small model.

    python recipes/ablations/hours.py RUNS --data FOLDER [--hours 1 3 6 all synthetic] [--seeds 1]

trains hours.toml once for each amount and seed, always for the same number of steps, each in a
separate folder in RUNS; transcribes utterances of held-out speakers, greedily and by the default
search with the package's language model; and writes RUNS/hours.md and RUNS/hours.png. The order of
utterances is drawn once, so that larger amounts contain the smaller ones. Finished runs are not
trained again; interrupted runs are restarted.

"3+self" is self-training: 3 hours are used with their transcripts, the rest of the real speech
without. The model trained on the 3 hours transcribes the rest by the default search, and the
transcripts with the highest confidence are used as targets (`asr.corpora.pseudo_labels`).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from runs import once, publish, train
from spoken import Spoken, decode_all, error_rates, read_spoken
from summary import cell, draw, panels

from asr.commands.output import replacing
from asr.corpora.manifest import Utterance, read_manifest, select, write_manifest
from asr.corpora.pseudo_labels import Label, surest
from asr.errors import UserError, exit_status
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.recognizer import SHIPPED
from asr.models.folder import LANGUAGE_MODEL
from asr.render.tables import markdown_table
from asr.training.config import ManifestSettings, SpeechConfig, load_config
from asr.training.journal import log_line

CONFIG = Path(__file__).with_name("hours.toml")
REPORT = Path(__file__).parents[1] / "librispeech" / "dev-report.txt"
ALL, SYNTHETIC = "all", "synthetic"  # all real speech, without and with the synthetic corpora
SELF = "+self"  # suffix: with pseudo-labels for the rest of the real speech
KEPT = 0.5  # share of the pseudo-labels to train on
ORDER = 0  # seed of the order of utterances, the same for all runs
Corpora = Sequence[Sequence[Utterance]]  # one for each of config.data.train

GREEDY = DecodingOptions(beam=1)
SEARCH = DecodingOptions()


class Scores(NamedTuple):
    """Error rates in per cent, of greedy search and of the default search with language model.

    hours: of distinct speech. seconds: CPU time of a run.
    """

    hours: float
    cer: float
    wer: float
    search_cer: float
    search_wer: float
    seconds: float


def amount(text: str) -> str:
    """Check and return an amount of speech.

    Raises ValueError if it is neither a number of hours above 0, optionally with the suffix SELF,
    nor one of the two names.
    """
    if text not in (ALL, SYNTHETIC) and not 0 < float(text.removesuffix(SELF)) < math.inf:
        raise ValueError(text)
    return text


def load(overrides: Sequence[str]) -> SpeechConfig:
    """Return the config with changed settings; raises UserError if they are invalid."""
    config = load_config(CONFIG, overrides)
    assert isinstance(config, SpeechConfig)
    return config


def is_synthetic(corpus: ManifestSettings) -> bool:
    """Return whether a corpus is in a folder of synthetic speech."""
    return SYNTHETIC in Path(corpus.manifest).parts


def first_hours(corpora: Corpora, hours: float) -> list[list[Utterance]]:
    """Return the first `hours` of all corpora in an order drawn once, split by corpus.

    Raises UserError if there is less speech.
    """
    pairs = [(number, each) for number, corpus in enumerate(corpora) for each in corpus]
    order = np.random.default_rng(ORDER).permutation(len(pairs))
    shuffled = [pairs[place] for place in order]
    ends = list(accumulate(each.duration for _, each in shuffled))
    if ends[-1] < hours * 3600:
        raise UserError(f"wanted {hours:g} hours of speech, got {ends[-1] / 3600:.2f}")
    count = sum(end <= hours * 3600 for end in ends)
    kept: list[list[Utterance]] = [[] for _ in corpora]
    for number, utterance in shuffled[:count]:
        kept[number].append(utterance)
    return kept


def read_corpora(data: Path, config: SpeechConfig, synthetic: bool) -> list[list[Utterance]]:
    """Read the utterances that are short enough; synthetic corpora only if `synthetic`.

    Raises UserError if a manifest cannot be read.
    """
    corpora: list[list[Utterance]] = []
    audio_in = config.data.audio_folder(data)
    for corpus in config.data.train:
        wanted = synthetic or not is_synthetic(corpus)
        utterances = read_manifest(data / corpus.manifest, audio_in) if wanted else []
        corpora.append([each for each in utterances if each.duration <= config.data.longest])
    return corpora


def write_part(folder: Path, config: SpeechConfig, corpora: Corpora) -> tuple[list[str], float]:
    """Write a manifest of each corpus that is not empty into a folder.

    Returns overrides of the config, as for `asr train --set`, and the hours of speech. The audio
    stays in the data folder.
    """
    entries = []
    for number, (corpus, kept) in enumerate(zip(config.data.train, corpora, strict=True)):
        if kept:
            manifest = folder / f"{number}.jsonl"
            write_manifest(manifest, kept)
            path = json.dumps(str(manifest.resolve()))
            entries.append(f"{{manifest={path}, times={corpus.times}}}")
    hours = sum(each.duration for kept in corpora for each in kept) / 3600
    return [
        f"data.train=[{', '.join(entries)}]",
        f"data.audio_in={config.data.audio_in or '.'}",
    ], hours


def pseudo_labelled(file: Path, corpora: Corpora, teacher: Path) -> list[list[Utterance]]:
    """Return the utterances with the most confident transcripts, with these transcripts.

    file: holds the transcripts of all utterances; written if it does not exist.
    """
    pairs = [(number, each) for number, corpus in enumerate(corpora) for each in corpus]
    if not file.exists():
        log_line(f"{file}: transcribing {len(pairs)} utterances")
        spoken = read_spoken([utterance for _, utterance in pairs])
        segments = decode_all(with_words(teacher), spoken.pieces, SEARCH)
        found = [[getattr(each, name) for name in Label._fields] for each in segments]
        with replacing(file) as part:
            part.write_text(json.dumps(found), "utf-8")
    labels = [Label(*each) for each in json.loads(file.read_text("utf-8"))]
    kept: list[list[Utterance]] = [[] for _ in corpora]
    for index in surest(labels, KEPT):
        number, utterance = pairs[index]
        kept[number].append(replace(utterance, text=labels[index].text, written=None))
    return kept


def with_words(model: Path) -> LoadedModel:
    """Load a model with the language model of the package."""
    return LoadedModel.load(model).with_language_model(SHIPPED / LANGUAGE_MODEL)


def read_report(data: Path, config: SpeechConfig, every: int) -> Spoken:
    """Read every `every`-th utterance of `REPORT`; raises UserError if it cannot be read."""
    utterances = read_manifest(data / config.data.dev, config.data.audio_folder(data))
    return read_spoken(select(utterances, REPORT)[::every])


def chosen(given: argparse.Namespace, report: Spoken, asked: str, seed: int) -> Corpora:
    """Return the training utterances of an amount of speech, by corpus.

    Raises UserError if a manifest cannot be read, there is less speech, or the teacher of SELF
    cannot be trained.
    """
    corpora = read_corpora(given.data, load(given.overrides), asked == SYNTHETIC)
    if asked in (ALL, SYNTHETIC):
        return corpora
    few = asked.removesuffix(SELF)
    labelled = first_hours(corpora, float(few))
    if asked == few:
        return labelled
    ids = [{each.id for each in corpus} for corpus in labelled]
    rest = [
        [each for each in corpus if each.id not in known]
        for corpus, known in zip(corpora, ids, strict=True)
    ]
    scores(given, report, few, seed)  # trains the teacher if necessary
    texts = given.runs / "parts" / f"{asked}-{seed}.json"
    own = pseudo_labelled(texts, rest, given.runs / f"{few}-{seed}" / "model")
    return [[*with_text, *without] for with_text, without in zip(labelled, own, strict=True)]


def scores(given: argparse.Namespace, report: Spoken, asked: str, seed: int) -> Scores:
    """Return the scores of an amount of speech and a seed; the model is trained if necessary.

    Raises UserError if training fails.
    """
    config = load(given.overrides)
    part = given.runs / "parts" / (f"{asked}-{seed}" if asked.endswith(SELF) else asked)
    changes, hours = write_part(part, config, chosen(given, report, asked, seed))
    overrides = [*given.overrides, *changes, f"seed={seed}"]
    folder = given.runs / f"{asked}-{seed}"
    make = partial(score, folder, given.data, hours, overrides, report)
    noted = [*overrides, f"every={given.every}"]
    return Scores(**once(folder / "scores.json", noted, make))


def score(
    folder: Path, data: Path, hours: float, overrides: list[str], report: Spoken
) -> dict[str, float]:
    """Train and score one model.

    Raises UserError if training fails.
    """
    seconds = train(CONFIG, folder, data, overrides)
    loaded = with_words(folder / "model")
    greedy, searched = (
        error_rates(report.texts, decode_all(loaded, report.pieces, each))
        for each in (GREEDY, SEARCH)
    )
    return Scores(hours, *greedy, *searched, seconds)._asdict()


def table(rows: Mapping[str, Sequence[Scores]]) -> str:
    """Return all scores in Markdown, one row per amount of speech."""
    digits = {"hours": 2, "seconds": 0}
    searched = ("CER %, search", "WER %, search")
    return markdown_table(
        ("asked for", "hours", "CER %", "WER %", *searched, "training, CPU-s"),
        [
            (asked, *(cell([getattr(each, name) for each in seeds], digits.get(name, 1))
                      for name in Scores._fields))
            for asked, seeds in rows.items()
        ],
    )  # fmt: skip


def picture(path: Path, rows: Mapping[str, Sequence[Scores]]) -> None:
    """Draw the error rates of every seed."""
    titles = {"CER, %, greedy": "cer", "WER, %, search": "search_wer"}
    draw(path, panels(titles, rows))


def main() -> None:
    """Read the arguments, train missing models, and write the table and the picture."""
    parser = argparse.ArgumentParser(description="Measure the effect of more training speech.")
    parser.add_argument("runs", type=Path, help="folder for the runs, the table and the picture")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--hours", nargs="+", type=amount, default=["1", "3", "6", ALL, SYNTHETIC])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--every", type=int, default=4, help="score every N-th utterance")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    given = parser.parse_args()
    report = read_report(given.data, load(given.overrides), given.every)
    rows: dict[str, list[Scores]] = {}
    for seed, asked in product(given.seeds, given.hours):
        rows.setdefault(asked, []).append(scores(given, report, asked, seed))
    publish(given.runs, "hours", table(rows), lambda path: picture(path, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
