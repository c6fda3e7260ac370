"""The speech task: the loss of a recogniser, and its WER on the dev set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.attention.contract import Annotations, Memory
from asr.attention.penalties import entropy
from asr.audio.read import SAMPLE_RATE
from asr.audio.spec_augment import add_feature_noise, spec_augment
from asr.corpora.collate import unpad
from asr.errors import UserError
from asr.models.ctc import ctc_loss
from asr.models.decoder import DecoderOutput
from asr.models.encoders.frozen import FrozenFeatures
from asr.models.folder import load_weights, read_folder, save_folder
from asr.models.speech import Encoded, build_speech_model
from asr.runtime.device import choose_device
from asr.runtime.torch_runtime import TorchDecoder
from asr.scoring import health
from asr.scoring.words import ErrorCounts, count_characters, count_words
from asr.search.ctc_path import ctc_greedy
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.limits import step_limits
from asr.search.trees import change
from asr.tables import to_table
from asr.text.vocabulary import EOS
from asr.training.config import SpeechConfig
from asr.training.contract import Losses, Term, Validation
from asr.training.losses.risk import expected_errors
from asr.training.losses.sequences import decode_with_sampling, sequence_loss, shift, token_loss
from asr.training.precision import products
from asr.training.tasks.speech_data import SpeechBatch, SpeechData, cache_folder
from asr.training.teacher import (
    Targets,
    alignment_loss,
    distillation_loss,
    inside,
    relation_loss,
)

WHOLE = 1000.0  # per cent; more than any CER, so that it only breaks ties of WER


class Decoded(NamedTuple):
    """Greedy hypotheses of a batch; ctc is empty if the model has no CTC head."""

    hypotheses: list[Hypothesis]
    ctc: list[list[int]]
    annotations: list[int]


class SpeechTask:
    """Speech recognition; see `asr.training.contract.Task`."""

    unit = "audio_seconds"

    def __init__(
        self, config: SpeechConfig, data: Path, config_folder: Path, run_folder: Path = Path()
    ) -> None:
        """Read the data and make the model; the folders: see `SpeechData`."""
        self.config = config
        self.device = choose_device(config.training.device)
        self.data = SpeechData(config, data, config_folder, run_folder)
        self.plan = self.data.plan
        self.make = self.data.make
        torch.manual_seed(config.seed)
        self.model = build_speech_model(config.model, len(self.data.vocabulary))
        self.model.to(self.device)
        if isinstance(self.model.features, FrozenFeatures):
            cache = cache_folder(config.data.frame_cache, run_folder)
            self.model.features.load(cache, self.device)
        self._check_teacher()
        start = config.training.start_from
        self.start = read_folder(Path(start), "speech") if start else None

    def _check_teacher(self) -> None:
        """Refuse a teacher whose frames are not those of the CTC head, or of the annotations.

        Raises:
            UserError: the lengths of the frames.
        """
        teacher, ctc = self.data.teacher, self.model.ctc
        if teacher is None or ctc is None:
            return
        own = self.model.seconds_per_annotation / ctc.subframes
        if not math.isclose(own, teacher.seconds_per_frame):
            raise UserError(
                f"{self.config.teacher.model} has a CTC frame every "
                f"{1000 * teacher.seconds_per_frame:g} ms, this model every {1000 * own:g} ms; "
                "change model.ctc.subframes or model.encoder.layers_before_reduction"
            )
        theirs, ours = teacher.seconds_per_annotation, self.model.seconds_per_annotation
        settings = self.config.teacher
        for key in ("alignments", "annotations"):
            if getattr(settings, key) and not math.isclose(theirs, ours):
                raise UserError(
                    f"teacher.{key}: {settings.model} has an annotation every "
                    f"{1000 * theirs:g} ms, this model every {1000 * ours:g} ms; set it to 0, or "
                    "change model.encoder.layers_before_reduction"
                )

    def begin(self) -> None:
        """Prepare a new run: take the weights of `training.start_from`, or fit the normaliser.

        A resumed run does neither: its statistics are those of its checkpoint.

        Raises:
            UserError: the model to start from is missing or does not fit.
        """
        if self.start is None:
            return self.data.fit_normalizer(self.model)
        if self.start.vocabularies.get("vocabulary") != self.data.vocabulary.to_json():
            raise UserError(f"{self.start.path}: its characters differ from those of this recipe")
        load_weights(self.model, self.start.path)

    def loss(self, batch: SpeechBatch, step: int) -> Losses:
        """Return cross-entropy, CTC and penalties of a batch."""
        settings = self.config.loss
        amount = float(batch.waveforms.lengths.sum()) / SAMPLE_RATE
        tokens = int(batch.token_lengths.sum()) + len(batch.token_lengths)  # with each <eos>
        batch = batch.to(self.device)
        change = None
        if step >= self.config.augment.after_step:
            change = partial(self._change_features, seeds=batch.seeds)
        model = self.model
        with products(self.device, self.config.training.precision):
            encoded = model.encode(batch.waveforms, change)
            previous, expected = shift(batch.tokens, batch.token_lengths)
            share = settings.scheduled_sampling * (step >= settings.scheduled_sampling_from)
            output = decode_with_sampling(model.decoder, previous, encoded.memory, share)
            total, parts = sequence_loss(output, expected, encoded.lengths, settings, step)
            targets = self.targets(batch, previous)
            if settings.risk:
                errors = expected_errors(
                    model,
                    encoded.memory,
                    lambda: model.encode(batch.waveforms, change).memory,
                    self._limits(batch),
                    unpad(batch.tokens, batch.token_lengths),
                    self._wrong,
                    settings.risk_beam,
                )
                parts["risk"] = errors / tokens
                total = (1 - settings.risk) * total + settings.risk * parts["risk"]
            terms = [] if batch.texts is None else [self._text_term(encoded.memory, batch.texts)]
            if encoded.ctc_log_probs is None or not settings.ctc:
                return Losses([*terms, Term(total, parts, tokens)], amount)
            taught = self.config.teacher.outputs  # 0 without a teacher
            terms.append(Term((1 - settings.ctc) * (1 - taught) * total, parts, tokens))
            steps = batch.token_lengths + 1
            terms += self._decoder_terms(output, encoded.lengths, steps, targets)
            lengths = encoded.ctc_lengths
            terms += self._ctc_terms(encoded.ctc_log_probs, lengths, batch, targets)
            if targets and targets.annotations and self.config.teacher.annotations:
                terms.append(self._relation_term(encoded, targets.annotations))
        return Losses(terms, amount)

    def targets(self, batch: SpeechBatch, previous: Tensor) -> Targets | None:
        """Return the teacher's targets: cached ones, or computed now; None without a teacher.

        previous: (B, U), the tokens before each of the expected ones.
        """
        if self.data.teacher is None or batch.lesson is None:
            return batch.targets
        if not self.config.teacher.teaches_decoder:
            return self.data.teacher.teach(batch.lesson)
        return self.data.teacher.teach(batch.lesson, previous, batch.token_lengths + 1)

    def _decoder_terms(
        self, output: DecoderOutput, annotations: Tensor, steps: Tensor, targets: Targets | None
    ) -> Iterator[Term]:
        """Yield the terms of the decoder by the teacher; annotations, steps: (B,)."""
        settings, factor = self.config.teacher, 1 - self.config.loss.ctc
        if targets is None or targets.decoder is None:
            return
        taught = targets.decoder
        count = torch.minimum(steps, taught.lengths).sum()
        if settings.outputs:
            own = torch.log_softmax(output.logits, dim=-1)
            loss = distillation_loss(own, steps, taught.log_probs, taught.lengths)
            yield Term(factor * settings.outputs * loss, {"teacher_outputs": loss}, count)
        if settings.alignments:
            loss = alignment_loss(output.weights, annotations, steps, taught)
            yield Term(factor * settings.alignments * loss, {"teacher_alignments": loss}, count)

    def _text_term(self, memory: Memory, texts: Tensor) -> Term:
        """Return the term of the decoder by text without recordings (B, pieces, length).

        Source: internal LM training, Meng et al. 2021. The end of a piece is no end of a text.
        """
        decoder, pieces = self.model.decoder, texts.size(1)
        without = change(lambda each: each.detach(), decoder.without_audio(memory))
        memory = change(lambda each: each.repeat_interleave(pieces, 0), without)
        expected = texts.flatten(0, 1)
        previous = torch.cat([torch.full_like(expected[:, :1], EOS), expected[:, :-1]], 1)
        output = decoder(previous, memory)
        loss = token_loss(output, expected).loss
        return Term(self.config.text.factor * loss, {"text": loss}, expected.numel())

    def _relation_term(self, encoded: Encoded, theirs: Annotations) -> Term:
        """Return the term of the encoder by the annotations of the teacher."""
        values = encoded.memory.values
        own = Annotations(values, inside(encoded.lengths, values.size(1)))
        loss, compared = relation_loss(own, theirs)
        factor = self.config.teacher.annotations
        return Term(factor * loss, {"teacher_annotations": loss}, compared)

    def _ctc_terms(
        self, log_probs: Tensor, lengths: Tensor, batch: SpeechBatch, targets: Targets | None
    ) -> Iterator[Term]:
        """Yield the terms of the CTC head: by the texts, and by the teacher."""
        factor = self.config.loss.ctc
        share = self.config.teacher.share if targets else 0.0
        if share < 1:
            loss = ctc_loss(log_probs, lengths, batch.tokens, batch.token_lengths)
            count = batch.token_lengths.clamp_min(1).sum()
            yield Term(factor * (1 - share) * loss, {"ctc": loss}, count)
        if targets:
            loss = distillation_loss(log_probs, lengths, targets.values, targets.lengths)
            count = torch.minimum(lengths, targets.lengths).sum()
            yield Term(factor * share * loss, {"teacher": loss}, count)

    def _limits(self, batch: SpeechBatch) -> NDArray[np.int64]:
        """Return the length limit of each utterance, in characters."""
        return step_limits((batch.waveforms.lengths / SAMPLE_RATE).cpu().numpy())

    def _wrong(self, wanted: list[int], found: list[int]) -> float:
        """Return the character errors of a hypothesis."""
        decode = self.data.vocabulary.decode
        return count_characters(decode(wanted), decode(found)).errors

    def validate(self, step: int, folder: Path) -> Validation:
        """Decode the dev utterances greedily, by attention and by CTC.

        Counts errors, measures the attention's health, and draws the attention of one utterance.
        """
        words, characters, ctc = ErrorCounts(), ErrorCounts(), ErrorCounts()
        healths: list[health.Health] = []
        entropies: list[float] = []
        longest = 0.0
        picture = folder / "alignments" / f"step-{step:08d}.png"
        for utterances, batch in self.data.dev_batches():
            decoded = self.decode(batch)
            for place, utterance in enumerate(utterances):
                hypothesis, length = decoded.hypotheses[place], decoded.annotations[place]
                text = self.data.vocabulary.decode(hypothesis.tokens)
                words += count_words(utterance.text, text)
                characters += count_characters(utterance.text, text)
                if decoded.ctc:
                    by_ctc = self.data.vocabulary.decode(decoded.ctc[place])
                    ctc += count_characters(utterance.text, by_ctc)
                longest = max(longest, len(text) / max(1, len(utterance.text)))
                weights = torch.from_numpy(hypothesis.weights)
                entropies.append(float(entropy(weights).mean()))
                healths.append(health.measure(weights, length))
                if utterance is self.data.dev[len(self.data.dev) // 2]:
                    self._draw(picture, hypothesis, length)
        total = health.aggregate(healths).total
        metrics = {"wer": 100 * words.rate, "cer": 100 * characters.rate}
        if self.model.ctc is not None:
            metrics["ctc_cer"] = 100 * ctc.rate
        metrics["entropy"] = sum(entropies) / len(entropies)
        metrics["diagonal"] = total.mean.diagonal
        metrics["longest_ratio"] = longest
        figure = selection_figure(metrics)
        most_frequent = health.verdict(total).splitlines()[0]
        return Validation(figure, metrics, most_frequent, picture)

    def _draw(self, picture: Path, hypothesis: Hypothesis, length: int) -> None:
        from asr.render.picture import draw_weights  # matplotlib, which a worker can do without

        picture.parent.mkdir(exist_ok=True)
        labels = [*self.data.vocabulary.symbols(hypothesis.tokens), "<eos>"]
        draw_weights(picture, hypothesis.weights[:, :length], labels)

    def decode(self, batch: SpeechBatch) -> Decoded:
        """Decode a batch greedily, by attention and by CTC."""
        batch = batch.to(self.device)
        with products(self.device, self.config.training.precision):
            encoded = self.model.encode(batch.waveforms)
            decoder = TorchDecoder(self.model.decoder, encoded.memory)
            hypotheses = greedy(decoder, self._limits(batch))
        ctc: list[list[int]] = []
        if encoded.ctc_log_probs is not None:
            log_probs = encoded.ctc_log_probs.cpu().numpy()
            ctc = ctc_greedy(log_probs, encoded.ctc_lengths.cpu().numpy())
        return Decoded(hypotheses, ctc, encoded.lengths.tolist())

    def save(self, folder: Path) -> None:
        """Write the model folder."""
        save_folder(
            folder,
            task="speech",
            model=to_table(self.config.model),
            vocabularies={"vocabulary": self.data.vocabulary.to_json()},
            state=self.model.state_dict(),
            notes={"recipe": to_table(self.config)},
            usage=self.start.usage if self.start else None,
        )

    def _change_features(self, features: Tensor, frames: Tensor, seeds: Sequence[int]) -> Tensor:
        settings = self.config.augment
        masked = spec_augment(
            features,
            frames,
            seeds,
            time_masks=settings.time_masks,
            time_width=settings.time_width,
            time_share=settings.time_share,
            frequency_masks=settings.frequency_masks,
            frequency_width=settings.frequency_width,
        )
        if not settings.feature_noise:
            return masked
        others = [seed + 1 for seed in seeds]  # other numbers than those of the masks
        return add_feature_noise(masked, frames, others, settings.feature_noise)


def selection_figure(metrics: Mapping[str, float]) -> float:
    """Return the figure that selects a model: WER; CER breaks ties, and then CER of CTC alone.

    With one or two dev utterances every model may write them without error.
    """
    return metrics["wer"] + metrics["cer"] / WHOLE + metrics.get("ctc_cer", 0.0) / WHOLE**2
