"""The translation task: loss on sentence pairs, and BLEU of greedy decoding on the dev set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

from asr.alignment.links import merge_words
from asr.attention.penalties import entropy
from asr.corpora.collate import pad_tokens, unpad
from asr.models.folder import load_weights, read_folder, save_folder
from asr.models.translation import build_translation_model
from asr.render.tables import text_table
from asr.runtime.device import choose_device
from asr.runtime.torch_runtime import TorchDecoder
from asr.scoring.bleu import phrase_bleu, score, sentence_bleu
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.limits import most_target_tokens
from asr.tables import to_table
from asr.text.vocabulary import EOS, of_both_sides
from asr.training.config import TranslationConfig
from asr.training.contract import Losses, Term, Validation
from asr.training.journal import log_line
from asr.training.losses.risk import expected_errors
from asr.training.losses.sequences import decode_with_sampling, sequence_loss, shift
from asr.training.precision import products
from asr.training.tasks.translation_data import TextBatch, TranslationData

VALIDATION_SENTENCES: Final = 128  # decoded at once
PHRASE_ORDER: Final = 2  # n-gram order of phrase BLEU: some phrases have two words


class TranslationTask:
    """Translation for the training loop; see `asr.training.contract.Task`."""

    unit = "target_tokens"

    def __init__(self, config: TranslationConfig, data: Path, config_folder: Path) -> None:
        """Read the data and make the model; config_folder: for the lists in the config."""
        self.config = config
        self.device = choose_device(config.training.device)
        start = config.training.start_from
        self.start = read_folder(Path(start), "translation") if start else None
        known = of_both_sides(self.start.path, self.start.vocabularies) if self.start else None
        self.data = TranslationData(config, data, config_folder, known)
        self.plan = self.data.plan
        self.make = self.data.make
        self.source, self.target = self.data.source, self.data.target
        torch.manual_seed(config.seed)
        self.model = build_translation_model(config.model, len(self.source), len(self.target))
        self.model.to(self.device)

    def begin(self) -> None:
        """Prepare a new run: take the weights of `training.start_from`.

        Raises:
            UserError: the model to start from is missing or does not fit.
        """
        if self.start is not None:
            load_weights(self.model, self.start.path)

    def loss(self, batch: TextBatch, step: int) -> Losses:
        """Return cross-entropy and penalties of a batch."""
        settings = self.config.loss
        amount = float(batch.token_lengths.sum() + len(batch.token_lengths))  # with each <eos>
        copies = 2 if settings.consistency else 1
        batch = TextBatch(*(torch.cat([each.to(self.device)] * copies) for each in batch))
        with products(self.device, self.config.training.precision):
            memory = self.model.encode(batch.source, batch.source_lengths).memory
            previous, expected = shift(batch.tokens, batch.token_lengths)
            share = settings.scheduled_sampling * (step >= settings.scheduled_sampling_from)
            output = decode_with_sampling(self.model.decoder, previous, memory, share)
            total, parts = sequence_loss(
                output, expected, batch.source_lengths, settings, step, settings.consistency
            )
            if settings.risk:
                errors = expected_errors(
                    self.model,
                    memory,
                    lambda: self.model.encode(batch.source, batch.source_lengths).memory,
                    most_target_tokens(batch.source_lengths.cpu().numpy()),
                    unpad(batch.tokens, batch.token_lengths),
                    self._cost,
                    settings.risk_beam,
                )
                parts["risk"] = errors / amount
                total = (1 - settings.risk) * total + settings.risk * parts["risk"]
        return Losses([Term(total, parts, amount)], amount)

    def _cost(self, wanted: list[int], output: list[int]) -> float:
        """Return the cost of a translation: 1 − BLEU, times the length of the reference."""
        found = sentence_bleu(self.target.decode(wanted), self.target.decode(output)) / 100
        return (1 - found) * (len(wanted) + 1)

    # validation

    def validate(self, step: int, folder: Path) -> Validation:
        """Translate the dev pairs and the phrases greedily; print a table of the phrases.

        The figure is −BLEU of the dev pairs.
        """
        dev, phrases = self.data.dev, self.data.phrases
        hypotheses = self._translate([question.source for question in dev])
        texts = [self.target.decode(each.tokens) for each in hypotheses]
        result = score([question.references for question in dev], texts)
        # sacrebleu must not tokenise tokens again.
        tokens = self.data.by_words or self.config.data.tokenised
        bleu = result.lowercase if tokens else result.bleu
        metrics = {
            "bleu": bleu,
            "length_ratio": result.length_ratio,
            "entropy": _mean(
                [float(entropy(torch.from_numpy(each.weights)).mean()) for each in hypotheses]
            ),
        }
        shown = [pair.source for pair in phrases] or [dev[0].source]
        translated = self._translate(shown)
        if phrases:
            figures = self._report_phrases(step, translated)
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
            usage=self.start.usage if self.start else None,
        )

    def _translate(self, sources: Sequence[str]) -> list[Hypothesis]:
        """Translate greedily in batches; the dev pairs are sorted from short to long."""
        found: list[Hypothesis] = []
        sentences = [self.data.encode_source(source) for source in sources]
        for start in range(0, len(sentences), VALIDATION_SENTENCES):
            some = pad_tokens(sentences[start : start + VALIDATION_SENTENCES])
            tokens, lengths = (torch.from_numpy(each).to(self.device) for each in some)
            encoded = self.model.encode(tokens, lengths)
            limits = most_target_tokens(encoded.lengths.cpu().numpy())
            found += greedy(TorchDecoder(self.model.decoder, encoded.memory), limits)
        return found

    def _report_phrases(self, step: int, translated: Sequence[Hypothesis]) -> list[float]:
        """Print the table of phrases; return the BLEU of each."""
        rows, figures = [], []
        trained_on = set(self.data.pairs)
        for pair, hypothesis in zip(self.data.phrases, translated, strict=True):
            text = self.target.decode(hypothesis.tokens)
            figures.append(phrase_bleu(pair.target, text, PHRASE_ORDER))
            seen = "yes" if pair in trained_on else "no"
            rows.append((pair.source, text, pair.target, figures[-1], seen))
        header = ("phrase", "translation", "wanted", f"BLEU-{PHRASE_ORDER}", "trained on")
        log_line(f"step {step}\n{text_table(header, rows)}")
        return figures

    def _draw(self, step: int, folder: Path, text: str, hypothesis: Hypothesis) -> Path:
        from asr.render.picture import draw_heat_map  # imported late: needs matplotlib

        path = folder / "alignments" / f"step-{step:08d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        source = self.data.encode_source(text)
        words = merge_words(
            hypothesis.weights[:, : len(source)],
            self.source.symbols(source),
            self.target.symbols([*hypothesis.tokens, EOS]),
            subwords=not self.data.by_words,
        )
        title = f"{text} → {self.target.decode(hypothesis.tokens)}"
        draw_heat_map(path, words.weights, words.source, words.target, title)
        return path


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
