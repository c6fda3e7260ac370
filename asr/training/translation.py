"""The translation task: pairs in, a translator's loss and its free-running dev BLEU out."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asr.attention.penalties import entropy
from asr.corpora.pairs import Pair, hold_out, read_pairs, tidy, tokenise
from asr.errors import UserError
from asr.models.checkpoint import save_folder
from asr.models.seq2seq import build_translation_model
from asr.models.textual import most_target_tokens
from asr.render.tables import text_table
from asr.scoring.bleu import phrase_bleu, score
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.settings import to_table
from asr.text.vocabulary import EOS, Vocabulary
from asr.training.batches import plan_batches
from asr.training.config import TranslationConfig
from asr.training.loop import Losses, Validation, choose_device, tell
from asr.training.sequences import decode_with_sampling, pad, sequence_loss, shift

VALIDATION_SENTENCES: Final = 128  # decoded at once
PHRASE_ORDER: Final = 2  # of the BLEU of single phrases, some of which have two words


class TextBatch(NamedTuple):
    """source: (B, T), ends with <eos>. tokens: (B, U), without it. Lengths of both: (B,)."""

    source: Tensor
    source_lengths: Tensor
    tokens: Tensor
    token_lengths: Tensor


class _Example(NamedTuple):
    source: list[int]  # ends with <eos>
    target: list[int]

    @property
    def length(self) -> int:
        return max(len(self.source), len(self.target) + 1)


class TranslationTask:
    """All that the loop asks of translation; see `asr.training.loop.Task`.

    Words are lower-cased and parted from punctuation; subwords take sentences as they are written.
    """

    unit = "target_tokens"

    def __init__(self, config: TranslationConfig, data: Path) -> None:
        self.config = config
        self.device = choose_device(config.training.device)
        self.phrases = _read_phrases(config.data.phrases, self._prepare)
        train, self.dev = self._read(data)
        self.training_pairs = set(train)
        self.source, self.target = _make_vocabularies(train, config.data.subwords)
        self.examples = [
            _Example([*self.source.encode(pair.source), EOS], self.target.encode(pair.target))
            for pair in train
        ]
        tell(
            f"{len(train)} pairs to train on, {len(self.dev)} held out; "
            f"{len(self.source)} and {len(self.target)} symbols"
        )
        torch.manual_seed(config.seed)
        self.model = build_translation_model(config.model, len(self.source), len(self.target))
        self.model.to(self.device)

    # what to train on

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

    def make(self, epoch: int, position: int, indices: list[int]) -> TextBatch:
        """Pad the sentences of one batch; nothing in it is left to chance."""
        source = pad([self.examples[index].source for index in indices])
        target = pad([self.examples[index].target for index in indices])
        return TextBatch(*source, *target)

    def loss(self, batch: TextBatch, step: int) -> Losses:
        """Return cross-entropy and penalties of a batch."""
        settings = self.config.loss
        amount = float(batch.token_lengths.sum() + len(batch.token_lengths))  # with each <eos>
        batch = TextBatch(*(each.to(self.device, non_blocking=True) for each in batch))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._uses_bf16):
            annotations = self.model.encoder(batch.source, batch.source_lengths)
            memory = self.model.decoder.prepare(annotations)
            previous, expected = shift(batch.tokens, batch.token_lengths)
            share = settings.scheduled_sampling * (step >= settings.scheduled_sampling_from)
            output = decode_with_sampling(self.model.decoder, previous, memory, share)
            total, parts = sequence_loss(output, expected, batch.source_lengths, settings, step)
        parts["loss"] = total
        return Losses(total, parts, amount)

    # what has been learnt

    def validate(self, step: int, folder: Path) -> Validation:
        """Translate the held-out pairs and the phrases greedily; tell the phrases in a table.

        The figure is −BLEU of the held-out pairs.
        """
        hypotheses = self._translate([pair.source for pair in self.dev])
        texts = [self.target.decode(each.tokens) for each in hypotheses]
        wanted = [pair.target for pair in self.dev]
        result = score(wanted, texts)
        # Words come tokenised, and sacrebleu is not to tokenise them again.
        bleu = result.lowercase if self._by_words else result.bleu
        metrics = {
            "bleu": bleu,
            "length_ratio": _count_words(texts) / _count_words(wanted),
            "entropy": _mean([float(entropy(each.weights).mean()) for each in hypotheses]),
        }
        shown = self.phrases or self.dev[:1]
        translated = self._translate([pair.source for pair in shown])
        if self.phrases:
            figures = self._tell_phrases(step, translated)
            metrics["phrase_bleu"] = _mean(figures)
        picture = self._draw(step, folder, shown[-1], translated[-1])
        return Validation(-bleu, metrics, "", picture)

    def save(self, folder: Path) -> None:
        """Write the model folder with both vocabularies."""
        save_folder(
            folder,
            task="translation",
            model=to_table(self.config.model),
            vocabularies={"source": self.source.to_json(), "target": self.target.to_json()},
            state=self.model.state_dict(),
            notes={"recipe": to_table(self.config)},
        )

    def _translate(self, sources: Sequence[str]) -> list[Hypothesis]:
        """Translate greedily, some at a time; the dev pairs come from short to long."""
        found: list[Hypothesis] = []
        sentences = [[*self.source.encode(source), EOS] for source in sources]
        for start in range(0, len(sentences), VALIDATION_SENTENCES):
            some = sentences[start : start + VALIDATION_SENTENCES]
            annotations = self.model.encoder.annotate(some)
            memory = self.model.decoder.prepare(annotations)
            limits = most_target_tokens(annotations.mask.sum(1))
            found += greedy(self.model.decoder, memory, limits)
        return found

    def _tell_phrases(self, step: int, translated: Sequence[Hypothesis]) -> list[float]:
        """Print the table of phrases; return the BLEU of each."""
        rows, figures = [], []
        for pair, hypothesis in zip(self.phrases, translated, strict=True):
            text = self.target.decode(hypothesis.tokens)
            figures.append(phrase_bleu(pair.target, text, PHRASE_ORDER))
            seen = "yes" if pair in self.training_pairs else "no"
            rows.append((pair.source, text, pair.target, figures[-1], seen))
        header = ("phrase", "translation", "wanted", f"BLEU-{PHRASE_ORDER}", "trained on")
        tell(f"step {step}\n{text_table(header, rows)}")
        return figures

    def _draw(self, step: int, folder: Path, pair: Pair, hypothesis: Hypothesis) -> Path:
        from asr.render.picture import draw_heat_map  # matplotlib, which a test can do without

        path = folder / "alignments" / f"step-{step:08d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        source = [*self.source.encode(pair.source), EOS]
        draw_heat_map(
            path,
            hypothesis.weights[:, : len(source)].float().cpu().numpy(),
            self.source.symbols(source),
            self.target.symbols([*hypothesis.tokens, EOS]),
            f"{pair.source} → {self.target.decode(hypothesis.tokens)}",
        )
        return path

    # reading and preparing

    @property
    def _uses_bf16(self) -> bool:
        return self.config.training.precision == "bf16"

    @property
    def _by_words(self) -> bool:
        return not self.config.data.subwords

    def _prepare(self, pair: Pair) -> Pair:
        change = tokenise if self._by_words else tidy
        return Pair(change(pair.source), change(pair.target))

    def _read(self, data: Path) -> tuple[list[Pair], list[Pair]]:
        """Read the pairs to train on, and those held out, the latter from short to long."""
        settings = self.config.data
        train = self._read_file(data / settings.train, settings.limit)
        if settings.dev:
            dev = self._read_file(data / settings.dev, 0)
        else:
            keep = [pair.source for pair in self.phrases]
            train, dev = hold_out(train, settings.dev_share, keep)
        for name, pairs in (("train on", train), ("validate with", dev)):
            if not pairs:
                raise UserError(
                    f"{data / settings.train}: no pairs to {name}; "
                    f"see data.dev, data.dev_share and data.most_words"
                )
        return train, sorted(dev, key=lambda pair: len(pair.source))

    def _read_file(self, path: Path, limit: int) -> list[Pair]:
        most = self.config.data.most_words
        pairs = [self._prepare(pair) for pair in read_pairs(path, limit)]
        kept = [pair for pair in pairs if max(len(side.split()) for side in pair) <= most]
        if len(kept) < len(pairs):
            tell(f"{path}: {len(pairs) - len(kept)} pairs above {most} words are left out")
        return kept


def _count_words(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _read_phrases(phrases: Sequence[Sequence[str]], prepare: Callable[[Pair], Pair]) -> list[Pair]:
    for phrase in phrases:
        if len(phrase) != 2:
            raise UserError(f"data.phrases: wanted [source, target] pairs, got {list(phrase)}")
    return [prepare(Pair(*phrase)) for phrase in phrases]


def _make_vocabularies(train: Sequence[Pair], subwords: int) -> tuple[Vocabulary, Vocabulary]:
    """Make the vocabularies of sources and targets: of their own words, or joint subwords."""
    if not subwords:
        return (
            Vocabulary.words(pair.source for pair in train),
            Vocabulary.words(pair.target for pair in train),
        )
    joint = _learn_subwords([text for pair in train for text in pair], subwords)
    return joint, joint


def _learn_subwords(texts: Sequence[str], size: int) -> Vocabulary:
    """Learn a sentencepiece vocabulary; the same texts give the same one, as resuming needs."""
    try:
        from sentencepiece import SentencePieceTrainer
    except ImportError:
        raise UserError(
            "data.subwords needs sentencepiece; install it: pip install '.[translation]'"
        ) from None
    written = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=written,
            vocab_size=size,
            character_coverage=1.0,
            normalization_rule_name="identity",  # so that what is decoded is what was written
            num_threads=1,  # sums of several threads would differ in their last digits
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).strip().rpartition("] ")[2]  # without the place in its source
        raise UserError(f"data.subwords = {size} does not suit these texts: {reason}") from error
    return Vocabulary.subwords(written.getvalue())
