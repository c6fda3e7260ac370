"""Train the model of punctuation and case on texts as people write them.

    python recipes/written/train.py recipes/written/english.toml asr/pretrained/written \
        --data DATA --held-out DATA/commonvoice/dev/manifest.jsonl

DATA contains the files of the config (README.md says where they come from). A sentence of a
held-out file is left out of training wherever it occurs. In every source, one of `HELD_OUT`
sentences (of running text, stretches of `STRETCH`) is held out as well; `evaluate.py` reads them.
The result is the same each time on the same machine: seeds are fixed, one thread is used.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from texts import Source, key_of, read_source
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from asr.errors import UserError, exit_status
from asr.models.folder import save_folder
from asr.models.punctuation import PunctuationModel, Rows
from asr.models.settings import PunctuationSettings
from asr.tables import Settings, about, from_table, setting, share, to_table
from asr.text.hashed import WHOLE, rows_of
from asr.text.written import Case, Mark, Written

HELD_OUT = 50
STRETCH = 20  # sentences
CUT = 0.15  # share of spans that begin within a sentence, and of those that end within one
FEWEST, MOST = 3, 150  # words of a span; the logarithm of the length is uniform
POOL = 32  # batches that are drawn at once and sorted by length
SAVED = 250  # steps between two saved averages
IGNORED = -100  # of `cross_entropy`


@dataclass(frozen=True)
class SourceConfig(Settings):
    """Files of one kind of text."""

    files: str = field(metadata=about("Pattern below the data folder."))
    share: float = share(0.1, "Share of the words of all batches.")
    held_out: tuple[str, ...] = setting((), "Names of files that are not trained on.")


@dataclass(frozen=True)
class Config(Settings):
    """A training run."""

    sources: tuple[SourceConfig, ...]
    model: PunctuationSettings
    seed: int
    steps: int
    words: int
    rate: float
    warmup: int
    weight_decay: float
    average: float
    hidden_words: float
    most_words: int


class Text(NamedTuple):
    """Sentences as arrays. words: (N,) ids. starts: (S + 1,) of sentences, the last one is N."""

    words: NDArray[np.int32]
    marks: NDArray[np.int8]
    cases: NDArray[np.int8]
    starts: NDArray[np.int64]
    runs: bool


class Span(NamedTuple):
    """A training example: words (T,), marks (T,), cases (T,) with `IGNORED` where unknown."""

    words: NDArray[np.int32]
    marks: NDArray[np.int64]
    cases: NDArray[np.int64]


def read_config(file: Path) -> Config:
    """Read a training config.

    Raises:
        UserError: it cannot be read, or a key or value is wrong.
    """
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from error
    sources = tuple(from_table(SourceConfig, each, "sources") for each in table.pop("sources", []))
    model = from_table(PunctuationSettings, table.pop("model", {}), "model")
    try:
        return Config(sources, model, **table)
    except TypeError as error:
        raise UserError(f"{file}: {error}") from error


def trained_part(source: Source) -> list[list[Written]]:
    """Return the sentences of a source that are trained on; see `held_out_part`."""
    return [each for each, is_out in _split(source) if not is_out]


def held_out_part(source: Source) -> list[list[Written]]:
    """Return the sentences of a source that are held out."""
    return [each for each, is_out in _split(source) if is_out]


def _split(source: Source) -> Iterator[tuple[list[Written], bool]]:
    size = STRETCH if source.runs else 1
    for at, sentence in enumerate(source.sentences):
        yield sentence, at // size % HELD_OUT == HELD_OUT - 1


class Words:
    """Ids of distinct words, in the order of their first occurrence."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def arrays(self, sentences: Sequence[Sequence[Written]], runs: bool) -> Text:
        """Return sentences as arrays; new words get new ids."""
        flat = [each for sentence in sentences for each in sentence]
        ids = [self.ids.setdefault(each.word, len(self.ids)) for each in flat]
        starts = np.cumsum([0, *map(len, sentences)])
        marks, cases = ([each[at] for each in flat] for at in (1, 2))
        return Text(
            np.array(ids, np.int32),
            np.array(marks, np.int8),
            np.array(cases, np.int8),
            starts,
            runs,
        )


def read_texts(
    config: Config, data: Path, held_out: Sequence[Path], words: Words
) -> list[list[Text]]:
    """Return the training texts of each source of the config.

    Raises:
        UserError: a source has no files, or a file cannot be read.
    """
    out = {key_of(each) for file in held_out for each in read_source(file).sentences}
    texts = []
    for source in config.sources:
        files = [
            each for each in sorted(data.glob(source.files)) if each.name not in source.held_out
        ]
        if not files:
            raise UserError(f"{data / source.files}: no such file")
        found = []
        for file in tqdm(files, desc=source.files, unit="file"):
            read = read_source(file, config.most_words)
            out |= {key_of(each) for each in held_out_part(read)}
            found.append(read)
        texts.append([_arrays(each, out, words) for each in found])
    return texts


def _arrays(source: Source, out: set[str], words: Words) -> Text:
    kept = [each for each in trained_part(source) if key_of(each) not in out]
    return words.arrays(kept, source.runs)


def spans(texts: list[list[Text]], shares: Sequence[float], seed: int) -> Iterator[Span]:
    """Yield random spans without end; shares: of the words, by source."""
    random = np.random.default_rng(seed)
    sizes = [np.array([len(each.words) for each in source], float) for source in texts]
    drawn = np.zeros(len(texts))
    while True:
        at = int(np.argmin(drawn / shares))  # the source that lags behind its share
        text = texts[at][random.choice(len(texts[at]), p=sizes[at] / sizes[at].sum())]
        wanted = round(float(np.exp(random.uniform(np.log(FEWEST), np.log(MOST)))))
        span = (_running if text.runs else _joined)(text, wanted, random)
        drawn[at] += len(span.words)
        yield span


def _running(text: Text, wanted: int, random: np.random.Generator) -> Span:
    """Draw neighbouring sentences of at least `wanted` words, or nearly."""
    sentence = int(random.integers(len(text.starts) - 1))
    start = text.starts[sentence]
    stop = text.starts[min(np.searchsorted(text.starts, start + wanted), len(text.starts) - 1)]
    return _cut(text, np.arange(start, stop), random)


def _joined(text: Text, wanted: int, random: np.random.Generator) -> Span:
    """Draw one sentence, or as many as `wanted` words need, up to four."""
    picked: list[NDArray[np.int64]] = []
    while not picked or (sum(map(len, picked)) < wanted / 2 and len(picked) < 4):
        sentence = int(random.integers(len(text.starts) - 1))
        picked.append(np.arange(text.starts[sentence], text.starts[sentence + 1]))
    return _cut(text, np.concatenate(picked), random)


def _cut(text: Text, places: NDArray[np.int64], random: np.random.Generator) -> Span:
    """Make the example of some words; a share of them lose words at either end."""
    places = places[: 2 * MOST]
    for _ in range(2):
        if len(places) > FEWEST and random.random() < CUT:
            places = places[int(random.integers(1, min(len(places) - 1, 15))) :]
        places = places[::-1]
    words, marks = text.words[places], text.marks[places].astype(np.int64)
    cases = text.cases[places].astype(np.int64)
    after_end = np.isin(np.roll(marks, 1), (Mark.STOP, Mark.QUESTION))
    after_end[0] = True
    # A capital there is due to its place: it does not say how the word is written elsewhere.
    cases[after_end & (cases == Case.CAPITAL)] = IGNORED
    return Span(words, marks, cases)


def batches(drawn: Iterator[Span], words: int) -> Iterator[list[Span]]:
    """Yield batches of spans of similar length, of at most `words` words with padding."""
    random = np.random.default_rng(0)
    while True:
        pool: list[Span] = []
        total = 0
        for span in drawn:
            pool.append(span)
            total += len(span.words)
            if total >= POOL * words:
                break
        pool.sort(key=lambda span: len(span.words))
        made: list[list[Span]] = [[]]
        for span in pool:
            if (len(made[-1]) + 1) * len(span.words) > words and made[-1]:
                made.append([])
            made[-1].append(span)
        for at in random.permutation(len(made)):
            yield made[at]


class Table(NamedTuple):
    """The embedding rows of all words: whole (W, WHOLE), and n-grams of word w in grams[w]."""

    whole: Tensor
    grams: list[Tensor]

    @classmethod
    def of(cls, words: Sequence[str], buckets: int) -> Table:
        """Hash the words."""
        rows = [torch.tensor(rows_of(word, buckets)) for word in words]
        return cls(torch.stack([each[:WHOLE] for each in rows]), [each[WHOLE:] for each in rows])

    def rows(self, ids: NDArray[np.int32]) -> Rows:
        """Return the rows of some words."""
        grams = [self.grams[at] for at in ids]
        sizes = torch.tensor([0, *(len(each) for each in grams[:-1])])
        return Rows(self.whole[torch.from_numpy(ids).long()], torch.cat(grams), sizes.cumsum(0))


def losses(
    model: PunctuationModel, table: Table, batch: Sequence[Span], hidden: float
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy of marks and of cases, means over the words."""
    lengths = [len(span.words) for span in batch]
    longest = max(lengths)
    ids, places = np.unique(np.concatenate([span.words for span in batch]), return_inverse=True)
    kept = (torch.rand(len(ids)) >= hidden).float()
    vectors = model.vectors(table.rows(ids), kept)  # (W, E)
    index = torch.zeros(len(batch), longest, dtype=torch.long)
    marks, cases = torch.full((2, len(batch), longest), IGNORED).unbind()
    parts = np.split(places, np.cumsum(lengths)[:-1])
    for row, (span, part) in enumerate(zip(batch, parts, strict=True)):
        index[row, : len(part)] = torch.from_numpy(part)
        marks[row, : len(part)] = torch.from_numpy(span.marks)
        cases[row, : len(part)] = torch.from_numpy(span.cases)
    of_marks, of_cases = model(vectors[index], lengths)
    return (
        functional.cross_entropy(of_marks.flatten(0, 1), marks.flatten()),
        functional.cross_entropy(of_cases.flatten(0, 1), cases.flatten()),
    )


def fit(
    model: PunctuationModel, config: Config, texts: list[list[Text]], words: Words
) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Train; yield the average weights every `SAVED` steps.

    The rate rises linearly during the warm-up, then falls with the root of the step, so that a run
    of fewer steps is the beginning of a longer one. Averages: Polyak and Juditsky 1992.
    """
    table = Table.of(list(words.ids), config.model.buckets)
    optimiser = torch.optim.AdamW(
        model.parameters(), config.rate, weight_decay=config.weight_decay, betas=(0.9, 0.99)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / config.warmup, (config.warmup / (step + 1)) ** 0.5)
    )
    average = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = batches(
        spans(texts, [each.share for each in config.sources], config.seed), config.words
    )
    means, last = torch.zeros(2), 0
    for step, batch in zip(range(1, config.steps + 1), drawn, strict=False):
        both = losses(model, table, batch, config.hidden_words)
        optimiser.zero_grad()
        torch.stack(both).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        share_of_new = max(1 / step, 1 - config.average)
        for name, value in model.state_dict().items():
            average[name].lerp_(value, share_of_new)
        means += torch.stack(both).detach()
        if step % SAVED == 0 or step == config.steps:
            marks, cases = (means / (step - last)).tolist()
            print(f"{step}: marks {marks:.4f}, cases {cases:.4f} nats a word", flush=True)
            means, last = torch.zeros(2), step
            yield step, average


def main() -> None:
    """Read the arguments, train and write the model folder."""
    parser = argparse.ArgumentParser(description="Train a model of punctuation and case.")
    parser.add_argument("config", type=Path)
    parser.add_argument("output", type=Path, help="model folder to write")
    parser.add_argument("--data", type=Path, required=True, help="folder of the config's files")
    parser.add_argument("--held-out", type=Path, nargs="*", default=[], help="files of test texts")
    given = parser.parse_args()
    started = time.process_time()
    config = read_config(given.config)
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)
    words = Words()
    texts = read_texts(config, given.data, given.held_out, words)
    total = sum(len(text.words) for source in texts for text in source)
    model = PunctuationModel(config.model, len(Mark), len(Case))
    size = sum(each.numel() for each in model.parameters())
    print(f"{total} words of text, {len(words.ids)} distinct; {size} parameters", flush=True)
    for step, average in fit(model, config, texts, words):
        recipe = to_table(config) | {"steps": step}
        notes: dict[str, Any] = {"recipe": recipe, "words_of_text": total}
        save_folder(given.output, "written", to_table(config.model), {}, average, notes, bits=8)
        print(f"{given.output}: {time.process_time() - started:.0f} CPU-seconds", flush=True)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
