"""The language-model task: loss of a recurrent model on text, and perplexity on the dev set."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.corpora.collate import pad_tokens
from asr.corpora.manifest import ANYWHERE, read_manifest, select
from asr.corpora.text import read_texts
from asr.errors import UserError
from asr.model_folder import WEIGHTS
from asr.models.folder import read_folder, read_weights, save_folder
from asr.models.language import build_language_model
from asr.runtime.device import choose_device
from asr.tables import to_table
from asr.text.vocabulary import EOS, SPECIALS, Vocabulary
from asr.training.config import LanguageConfig, LanguageDataSettings
from asr.training.contract import WHOLE, Losses, Term, Validation
from asr.training.journal import log_line
from asr.training.precision import products

VALIDATION_TEXTS = 64  # scored at once


class Windows(NamedTuple):
    """Input words and the next words, both (B, L)."""

    words: Tensor
    targets: Tensor


class LanguageTask:
    """Language modelling for the training loop; see `asr.training.contract.Task`.

    All texts are concatenated and cut into windows of a fixed number of words, because an utterance
    may begin inside a sentence and contain several.
    """

    unit = "words"

    def __init__(self, config: LanguageConfig, data: Path, config_folder: Path) -> None:
        """Read the texts and make the model; config_folder: the folder of the list of dev ids.

        The vocabulary is that of the model to start from, if any, and the most frequent other words
        of the texts up to `data.words`.

        Raises:
            UserError: a file or the model to start from cannot be used, or the texts are too short.
        """
        self.config = config
        self.device = choose_device(config.training.device)
        start = config.training.start_from
        known = _vocabulary_of(Path(start)) if start else None
        self.vocabulary, self.stream = _read(config.data, data, known)
        if len(self.stream) < 2 * config.batches.size:
            raise UserError(f"got {len(self.stream)} words of text, wanted at least two batches")
        utterances = read_manifest(data / config.data.dev, ANYWHERE)
        if config.data.dev_ids:
            utterances = select(utterances, config_folder / config.data.dev_ids)
        texts = sorted((self.vocabulary.encode(each.text) for each in utterances), key=len)
        self.dev = [text for text in texts if text]
        log_line(
            f"{len(self.stream)} words to train on, {sum(map(len, self.dev))} to validate with; "
            f"{len(self.vocabulary)} symbols"
        )
        torch.manual_seed(config.seed)
        self.model = build_language_model(config.model, len(self.vocabulary))
        self.model.to(self.device)

    def begin(self) -> None:
        """Prepare a new run: take the weights of `training.start_from`.

        Raises:
            UserError: the model to start from is missing or does not fit.
        """
        start = self.config.training.start_from
        if not start:
            return
        folder = read_folder(Path(start), "language")
        try:
            self.model.take(read_weights(folder.path / WEIGHTS))
        except ValueError as error:
            raise UserError(f"{folder.path}: does not fit the config: {error}") from error

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch: indices of windows, in random order.

        Raises:
            UserError: a batch is smaller than a window.
        """
        window = self.config.data.window
        count = int(self.config.batches.size) // window
        if not count:
            raise UserError(
                f"batches.size = {self.config.batches.size:g} is less than data.window = {window}"
            )
        order = np.random.default_rng((self.config.seed, epoch)).permutation(
            len(self.stream) // window - 1
        )
        whole = order[: len(order) // count * count].reshape(-1, count)
        batches: list[list[int]] = whole.tolist()
        return batches

    def make(self, epoch: int, position: int, indices: list[int], part: slice = WHOLE) -> Windows:
        """Cut the windows of a batch from the text, at different positions in each epoch."""
        window = self.config.data.window
        shift = np.random.default_rng((self.config.seed, epoch, 1)).integers(window)
        starts = np.array(indices[part])[:, None] * window + shift
        cut = self.stream[starts + np.arange(window)]  # (B, L)
        return _windows(torch.from_numpy(cut.astype(np.int64)))

    def loss(self, batch: Windows, step: int) -> Losses:
        """Return the cross-entropy of a batch, in nats per word."""
        words, targets = (each.to(self.device) for each in batch)
        with products(self.device, self.config.training.precision):
            total = self.model(words, targets).mean()
        words_counted = targets.numel()
        return Losses([Term(total, {}, words_counted)], float(words_counted))

    def validate(self, step: int, folder: Path) -> Validation:
        """Score the dev texts; the figure is the perplexity per word, with unknown words as one."""
        total, count = 0.0, 0
        for at in range(0, len(self.dev), VALIDATION_TEXTS):
            some = pad_tokens(self.dev[at : at + VALIDATION_TEXTS])
            padded, lengths = map(torch.from_numpy, some)
            words, targets = (each.to(self.device) for each in _windows(padded))
            inside = torch.arange(padded.size(1)) < lengths[:, None]
            losses = self.model(words, targets).detach().cpu()
            total += float(losses[inside].sum())
            count += int(lengths.sum())
        # Weights may diverge: e^709 is the largest that a float holds.
        perplexity = math.exp(total / count) if total / count < 709 else math.inf
        return Validation(perplexity, {"perplexity": perplexity}, "")

    def save(self, folder: Path) -> None:
        """Write the model folder with its vocabulary."""
        save_folder(
            folder,
            task="language",
            model=to_table(self.config.model),
            vocabularies={"words": self.vocabulary.to_json()},
            state=self.model.state_dict(),
            notes={"recipe": to_table(self.config)},
        )


def _windows(targets: Tensor) -> Windows:
    """Prefix the texts (B, L) with <eos>, as in the search."""
    first = torch.full_like(targets[:, :1], EOS)
    return Windows(torch.cat([first, targets[:, :-1]], 1), targets)


def _read(
    settings: LanguageDataSettings, data: Path, known: Vocabulary | None
) -> tuple[Vocabulary, NDArray[np.int32]]:
    """Return a known vocabulary, extended by the most frequent words, and the text as ids."""
    lines = [line for name in settings.train for line in read_texts(data / name)]
    vocabulary = _extended(known, lines, settings)
    ids = chain.from_iterable(map(vocabulary.encode, lines))
    return vocabulary, np.fromiter(ids, np.int32)


def _vocabulary_of(model: Path) -> Vocabulary:
    return Vocabulary.from_json(read_folder(model, "language").vocabularies["words"])


def _extended(
    known: Vocabulary | None, lines: Sequence[str], settings: LanguageDataSettings
) -> Vocabulary:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    if not counts:
        raise UserError(f"{', '.join(settings.train)}: no text to train on")
    inventory = known.inventory if known else SPECIALS
    have = set(inventory)
    new = (word for word, _ in counts.most_common() if word not in have)
    free = max(0, settings.words + len(SPECIALS) - len(inventory))
    return Vocabulary((*inventory, *islice(new, free)), spaced=True)
