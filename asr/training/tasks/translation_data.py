"""The data of the translation task: pairs, splits, vocabularies and batches."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from asr.corpora.batching import plan_batches
from asr.corpora.collate import pad_tokens
from asr.corpora.pairs import (
    Pair,
    gather,
    hold_out,
    part,
    read_classes,
    read_pairs,
    read_parallel,
    read_sentences,
    tidy,
    tokenise,
)
from asr.corpora.variants import exchange, join, rename, spoken
from asr.errors import UserError
from asr.text.vocabulary import EOS, Vocabulary
from asr.training.config import PairDataSettings, TranslationConfig
from asr.training.contract import WHOLE
from asr.training.journal import log_line


class TextBatch(NamedTuple):
    """source: (B, T) with <eos>. tokens: (B, U) without <eos>. Lengths of both: (B,)."""

    source: Tensor
    source_lengths: Tensor
    tokens: Tensor
    token_lengths: Tensor


class Question(NamedTuple):
    """A held-out sentence with all its references."""

    source: str
    references: tuple[str, ...]


class Example(NamedTuple):
    """A pair as ids: the source ends with <eos>, the target does not."""

    source: list[int]
    target: list[int]

    @property
    def length(self) -> int:
        """Tokens of the longer side, <eos> included."""
        return max(len(self.source), len(self.target) + 1)


class TranslationData:
    """Training examples, held-out sentences, and the vocabularies of both sides.

    For words, text is lower-cased and split from punctuation; for subwords it is unchanged.
    phrases: those of the config. dev: from short to long. pairs, examples: in the same order.
    asked: dev and test sources.
    """

    def __init__(
        self,
        config: TranslationConfig,
        data: Path,
        config_folder: Path,
        vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    ) -> None:
        """Read the data; config_folder: the folder of the lists in the config.

        vocabularies: source and target vocabulary of the model to start from; None makes new ones.
        Raises UserError if a file cannot be used or has too few pairs.
        """
        self.config = config
        if config.data.subword_dropout and self.by_words:
            raise UserError("data.subword_dropout needs subwords; set data.subwords, e.g. to 8000")
        self.phrases = _read_phrases(config.data.phrases, self.prepare)
        self.pairs, self.dev = self._read(data, config_folder)
        self.source, self.target = vocabularies or _make_vocabularies(self.pairs, config.data)
        kind = "words" if self.by_words else "subwords"
        if others := {self.source.kind, self.target.kind} - {kind}:
            raise UserError(
                f"data.subwords = {config.data.subwords} means {kind}, "
                f"but the model to start from has {min(others)}"
            )
        if config.data.extra:
            extra = self._read_file(config_folder, config.data.extra, "", 0)
            self.pairs += extra * config.data.extra_times
        self._add_variants(config_folder, np.random.default_rng(config.seed))
        self.examples = [
            Example(self.encode_source(pair.source), self.target.encode(pair.target))
            for pair in self.pairs
        ]
        log_line(
            f"{len(self.pairs)} pairs to train on, {len(self.dev)} sentences to validate with; "
            f"{len(self.source)} and {len(self.target)} symbols"
        )

    def _add_variants(self, config_folder: Path, random: np.random.Generator) -> None:
        """Add the pairs of `exchanged`, `renamed`, `joined` and `spoken`, in this order."""
        settings = self.config.data
        classes = self._read_classes(config_folder) if settings.exchanged else []
        count = round(settings.exchanged * len(self.pairs))
        self._add_generated(exchange(self.pairs, classes, count, random))
        count = round(settings.renamed * len(self.pairs))
        self._add_generated(rename(self.pairs, count, random))
        self.pairs += join(self.pairs, round(settings.joined * len(self.pairs)), random)
        drawn = random.integers(len(self.pairs), size=round(settings.spoken * len(self.pairs)))
        for source, target in [self.pairs[index] for index in drawn]:
            if text := spoken(source):
                self.pairs.append(Pair(text, target))

    def _add_generated(self, made: Sequence[Pair]) -> None:
        """Add generated pairs, except those whose source is in the dev or test set."""
        trainable, _ = part(made, [self.asked])
        self.pairs += trainable

    @property
    def by_words(self) -> bool:
        """Whether the symbols are words, not subwords."""
        return not self.config.data.subwords

    def prepare(self, pair: Pair) -> Pair:
        """Return a pair in the form that the vocabularies expect."""
        change = tokenise if self.by_words else tidy
        return Pair(change(pair.source), change(pair.target))

    def encode_source(self, text: str) -> list[int]:
        """Return the ids of a source sentence, with <eos>."""
        return [*self.source.encode(text), EOS]

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch."""
        batches = self.config.batches
        return plan_batches(
            [example.length for example in self.examples],
            batches.size,
            batches.most,
            np.random.default_rng((self.config.seed, epoch)),
            short_first=epoch < batches.sorted_epochs,
        )

    def make(self, epoch: int, position: int, indices: list[int], part: slice = WHOLE) -> TextBatch:
        """Make a part of one batch; see `asr.training.contract.Task.make`."""
        if self.config.data.subword_dropout:
            random = np.random.default_rng((self.config.seed, epoch, position))
            seeds = random.integers(2**31, size=(len(indices), 2)).tolist()
            examples = [
                self._sampled(self.pairs[index], each)
                for index, each in zip(indices[part], seeds[part], strict=True)
            ]
        else:
            examples = [self.examples[index] for index in indices[part]]
        source = pad_tokens([example.source for example in examples])
        target = pad_tokens([example.target for example in examples])
        return TextBatch(*map(torch.from_numpy, (*source, *target)))

    def _sampled(self, pair: Pair, seeds: Sequence[int]) -> Example:
        dropout = self.config.data.subword_dropout
        source = self.source.sample(pair.source, dropout, seeds[0])
        return Example([*source, EOS], self.target.sample(pair.target, dropout, seeds[1]))

    def _read(self, data: Path, config_folder: Path) -> tuple[list[Pair], list[Question]]:
        """Read the training pairs, and the dev sentences from short to long."""
        settings = self.config.data
        train = self._read_file(data, settings.train, settings.train_target, settings.limit)
        names = [name for name in (settings.test_list, settings.dev_list) if name]
        lists = [[self._form(each) for each in read_sentences(config_folder / n)] for n in names]
        train, listed = part(train, lists)
        if settings.dev:
            dev = self._read_file(data, settings.dev, settings.dev_target, 0)
        elif settings.dev_list:
            dev = listed[-1]
        else:
            keep = [pair.source for pair in self.phrases]
            train, dev = hold_out(train, settings.dev_share, keep)
        for name, pairs in (("train on", train), ("validate with", dev)):
            if not pairs:
                raise UserError(
                    f"{data / settings.train}: no pairs to {name}; "
                    f"see data.dev, data.dev_list, data.dev_share and data.most_words"
                )
        self.asked = [*(pair.source for pair in dev), *chain.from_iterable(lists)]
        return train, sorted(self._questions(dev), key=lambda each: len(each.source))

    def _read_classes(self, config_folder: Path) -> list[list[Pair]]:
        if not self.config.data.exchange:
            raise UserError("data.exchanged needs data.exchange, a file of word classes")
        path = config_folder / self.config.data.exchange
        return [[self.prepare(pair) for pair in words] for words in read_classes(path)]

    def _form(self, sentence: str) -> str:
        return self.prepare(Pair(sentence, "")).source

    def _questions(self, pairs: Sequence[Pair]) -> list[Question]:
        """Merge pairs with the same source; in parallel files every line is a question."""
        if self.config.data.dev_target:
            return [Question(pair.source, (pair.target,)) for pair in pairs]
        return [Question(*each) for each in gather(pairs).items()]

    def _read_file(self, data: Path, name: str, target: str, limit: int) -> list[Pair]:
        path = data / name
        read = read_parallel(path, data / target, limit) if target else read_pairs(path, limit)
        most = self.config.data.most_words
        pairs = [self.prepare(pair) for pair in read]
        kept = [pair for pair in pairs if max(len(side.split()) for side in pair) <= most]
        if len(kept) < len(pairs):
            log_line(
                f"{path}: {len(pairs) - len(kept)} pairs of more than {most} words are left out"
            )
        return kept


def _read_phrases(phrases: Sequence[Sequence[str]], prepare: Callable[[Pair], Pair]) -> list[Pair]:
    for phrase in phrases:
        if len(phrase) != 2:
            raise UserError(f"data.phrases: wanted [source, target] pairs, got {list(phrase)}")
    return [prepare(Pair(*phrase)) for phrase in phrases]


def _make_vocabularies(
    train: Sequence[Pair], settings: PairDataSettings
) -> tuple[Vocabulary, Vocabulary]:
    """Make the vocabularies of both sides from the training pairs only."""
    sources, targets = [pair.source for pair in train], [pair.target for pair in train]
    if not settings.subwords:
        return Vocabulary.words(sources), Vocabulary.words(targets)
    if settings.joint:
        joint = learn_subwords([text for pair in train for text in pair], settings)
        return joint, joint
    return learn_subwords(sources, settings), learn_subwords(targets, settings)


def learn_subwords(texts: Sequence[str], settings: PairDataSettings) -> Vocabulary:
    """Train a sentencepiece vocabulary, deterministically, so that runs can be resumed."""
    try:
        from sentencepiece import SentencePieceTrainer
    except ImportError:
        raise UserError(
            "data.subwords needs sentencepiece; install it: pip install sentencepiece"
        ) from None
    written = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=written,
            model_type=settings.subword_kind,
            vocab_size=settings.subwords,
            character_coverage=1.0,
            normalization_rule_name="identity",  # so that decoding restores the text exactly
            num_threads=1,  # several threads would make rounding errors random
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = (
            str(error).strip().rpartition("] ")[2]
        )  # without the position in sentencepiece's source
        raise UserError(
            f"data.subwords = {settings.subwords} fails on these texts: {reason}"
        ) from error
    return Vocabulary.subwords(written.getvalue())
