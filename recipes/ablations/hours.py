"""What more hours of speech are worth: one small model, trained on more and more.

    python recipes/ablations/hours.py RUNS --data FOLDER [--hours 1 3 6 all synthetic] [--seeds 1]

trains hours.toml once for each amount and seed, all for the same number of steps, each in a folder
of its own in RUNS; writes utterances of readers who were not chosen on down, greedily and by the
default search with the package's language model; and writes RUNS/hours.md and RUNS/hours.png.
Utterances come in an order drawn once, so that what is more holds what is less. Runs that are
finished are not trained again, one that was stopped is begun anew.

"3+self" is self-training: to 3 hours with their texts comes all the rest of the real speech without
its own. What the model of these 3 hours makes of it by the default search is taken for its text,
where that model is surest (`asr.corpora.pseudo_labels`).
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
from spoken import Spoken, error_rates, hear, write_down
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
from asr.training.journal import tell

CONFIG = Path(__file__).with_name("hours.toml")
REPORT = Path(__file__).parents[1] / "librispeech" / "dev-report.txt"
ALL, SYNTHETIC = "all", "synthetic"  # all real speech, and with it the synthetic corpora
SELF = "+self"  # after a number of hours: the rest of the real speech, with the model's own texts
KEPT = 0.5  # share of these texts that is trained on
ORDER = 0  # the seed of the order of utterances: of no run
Corpora = Sequence[Sequence[Utterance]]  # of config.data.train, one after another

GREEDY = DecodingOptions(beam=1)
SEARCH = DecodingOptions()


class Scores(NamedTuple):
    """Errors in per cent: by greedy search, and by the default one with its language model.

    hours: of different speech. seconds: of CPU, data to model folder.
    """

    hours: float
    cer: float
    wer: float
    search_cer: float
    search_wer: float
    seconds: float


def amount(text: str) -> str:
    """Return an amount of speech as it was asked for.

    Raises ValueError when it is neither a number of hours above 0, which SELF may follow, nor one
    of the two names.
    """
    if text not in (ALL, SYNTHETIC) and not 0 < float(text.removesuffix(SELF)) < math.inf:
        raise ValueError(text)
    return text


def load(overrides: Sequence[str]) -> SpeechConfig:
    """Return the recipe with settings changed; raises UserError when it cannot have them."""
    config = load_config(CONFIG, overrides)
    assert isinstance(config, SpeechConfig)
    return config


def is_synthetic(corpus: ManifestSettings) -> bool:
    """Return whether a corpus lies in a folder of synthetic speech."""
    return SYNTHETIC in Path(corpus.manifest).parts


def first_hours(corpora: Corpora, hours: float) -> list[list[Utterance]]:
    """Return of each corpus what lies in so many hours of all, taken in an order drawn once.

    Raises UserError when there is less than that.
    """
    pairs = [(number, each) for number, corpus in enumerate(corpora) for each in corpus]
    order = np.random.default_rng(ORDER).permutation(len(pairs))
    shuffled = [pairs[place] for place in order]
    ends = list(accumulate(each.duration for _, each in shuffled))
    if ends[-1] < hours * 3600:
        raise UserError(f"{hours:g} hours of speech asked for, there are {ends[-1] / 3600:.2f}")
    count = sum(end <= hours * 3600 for end in ends)
    kept: list[list[Utterance]] = [[] for _ in corpora]
    for number, utterance in shuffled[:count]:
        kept[number].append(utterance)
    return kept


def read_corpora(data: Path, config: SpeechConfig, synthetic: bool) -> list[list[Utterance]]:
    """Read what of each corpus is short enough; of synthetic ones nothing unless asked for.

    Raises UserError when a manifest cannot be read.
    """
    corpora: list[list[Utterance]] = []
    for corpus in config.data.train:
        wanted = synthetic or not is_synthetic(corpus)
        utterances = read_manifest(data / corpus.manifest) if wanted else []
        corpora.append([each for each in utterances if each.duration <= config.data.longest])
    return corpora


def write_part(folder: Path, config: SpeechConfig, corpora: Corpora) -> tuple[str, float]:
    """Write a manifest of each corpus into a folder, those that are empty left out.

    Returns what of the recipe it changes, as for `asr train --set`, and the hours of speech.
    """
    entries = []
    for number, (corpus, kept) in enumerate(zip(config.data.train, corpora, strict=True)):
        if kept:
            manifest = folder / f"{number}.jsonl"
            write_manifest(manifest, kept)
            path = json.dumps(str(manifest.resolve()))
            entries.append(f"{{manifest={path}, times={corpus.times}}}")
    hours = sum(each.duration for kept in corpora for each in kept) / 3600
    return f"data.train=[{', '.join(entries)}]", hours


def pseudo_labelled(file: Path, corpora: Corpora, teacher: Path) -> list[list[Utterance]]:
    """Return the utterances whose texts a model is surest of, with these texts.

    file: holds what the model says of all of them, or is now written.
    """
    pairs = [(number, each) for number, corpus in enumerate(corpora) for each in corpus]
    if not file.exists():
        tell(f"{file}: {len(pairs)} utterances are transcribed")
        heard = hear([utterance for _, utterance in pairs])
        segments = write_down(with_words(teacher), heard.pieces, SEARCH)
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
    """Load a model, with the language model of the package."""
    return replace(LoadedModel.load(model), language_model_file=SHIPPED / LANGUAGE_MODEL)


def read_report(data: Path, config: SpeechConfig, every: int) -> Spoken:
    """Read every so many-th utterance of `REPORT`; raises UserError when it cannot be read."""
    return hear(select(read_manifest(data / config.data.dev), REPORT)[::every])


def chosen(given: argparse.Namespace, report: Spoken, asked: str, seed: int) -> Corpora:
    """Return of each corpus what an amount of speech holds, its texts as they are to be learnt.

    Raises UserError when a manifest cannot be read, there is less speech than that, or the teacher
    of SELF cannot be trained.
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
    scores(given, report, few, seed)  # trains the teacher, if need be
    texts = given.runs / "parts" / f"{asked}-{seed}.json"
    own = pseudo_labelled(texts, rest, given.runs / f"{few}-{seed}" / "model")
    return [[*with_text, *without] for with_text, without in zip(labelled, own, strict=True)]


def scores(given: argparse.Namespace, report: Spoken, asked: str, seed: int) -> Scores:
    """Return the figures of an amount of speech and a seed, trained if that is not done.

    Raises UserError when the run cannot be made.
    """
    config = load(given.overrides)
    part = given.runs / "parts" / (f"{asked}-{seed}" if asked.endswith(SELF) else asked)
    change, hours = write_part(part, config, chosen(given, report, asked, seed))
    overrides = [*given.overrides, change, f"seed={seed}"]
    folder = given.runs / f"{asked}-{seed}"
    make = partial(score, folder, given.data, hours, overrides, report)
    noted = [*overrides, f"every={given.every}"]
    return Scores(**once(folder / "scores.json", noted, make))


def score(
    folder: Path, data: Path, hours: float, overrides: list[str], report: Spoken
) -> dict[str, float]:
    """Train one run and score its model.

    Raises UserError when the run cannot be made.
    """
    seconds = train(CONFIG, folder, data, overrides)
    loaded = with_words(folder / "model")
    greedy, searched = (
        error_rates(report.texts, write_down(loaded, report.pieces, each))
        for each in (GREEDY, SEARCH)
    )
    return Scores(hours, *greedy, *searched, seconds)._asdict()


def table(rows: Mapping[str, Sequence[Scores]]) -> str:
    """Return all figures in Markdown, a row for each amount of speech."""
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
    """Draw the errors of every seed."""
    titles = {"CER, %, greedy": "cer", "WER, %, search": "search_wer"}
    draw(path, panels(titles, rows))


def main() -> None:
    """Read the arguments, train what is not trained yet, and write the table and the picture."""
    parser = argparse.ArgumentParser(description="What more hours of speech are worth.")
    parser.add_argument("runs", type=Path, help="a folder for the runs, the table and the picture")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the corpora")
    parser.add_argument("--hours", nargs="+", type=amount, default=["1", "3", "6", ALL, SYNTHETIC])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--every", type=int, default=4, help="score every so many-th utterance")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    given = parser.parse_args()
    report = read_report(given.data, load(given.overrides), given.every)
    rows: dict[str, list[Scores]] = {}
    for seed, asked in product(given.seeds, given.hours):
        rows.setdefault(asked, []).append(scores(given, report, asked, seed))
    publish(given.runs, "hours", table(rows), lambda path: picture(path, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
