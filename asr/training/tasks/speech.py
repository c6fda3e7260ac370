"""The speech task: a recogniser's loss, and its free-running dev WER."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from asr.attention.contract import Annotations, Memory
from asr.attention.masks import pool_mask, restrict
from asr.attention.penalties import entropy
from asr.audio import augment
from asr.audio.read import SAMPLE_RATE
from asr.corpora.collate import unpad
from asr.errors import UserError
from asr.models.folder import load_weights, read_folder, save_folder
from asr.models.seq2seq import build_speech_model
from asr.runtime.torch_runtime import TorchDecoder
from asr.scoring import health
from asr.scoring.words import ErrorCounts, count_characters, count_words
from asr.search.ctc import ctc_greedy
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.limits import step_limits
from asr.tables import to_table
from asr.training.config import SpeechConfig
from asr.training.device import choose_device, products
from asr.training.loop import Losses, Validation
from asr.training.losses.risk import expected_errors
from asr.training.losses.sequences import PADDING, decode_with_sampling, sequence_loss, shift
from asr.training.tasks.speech_data import SpeechBatch, SpeechData

WHOLE = 1000.0  # WER counts first; CER, at most a few hundred per cent, decides between equals


class Decoded(NamedTuple):
    """What greedy search wrote for a batch; ctc is empty where the model has no CTC head."""

    hypotheses: list[Hypothesis]
    ctc: list[list[int]]
    annotations: list[int]


class SpeechTask:
    """All that the loop asks of speech; see `asr.training.loop.Task`."""

    unit = "audio_seconds"

    def __init__(self, config: SpeechConfig, data: Path, config_folder: Path) -> None:
        self.config = config
        self.device = choose_device(config.training.device)
        self.data = SpeechData(config, data, config_folder)
        self.plan = self.data.plan
        self.make = self.data.make
        self.features = self.data.features
        self.normalizer = self.data.fit_normalizer()
        torch.manual_seed(config.seed)
        self.model = build_speech_model(config.model, len(self.data.vocabulary))
        if config.training.start_from:
            self._start_from(Path(config.training.start_from))
        for module in (self.features, self.normalizer, self.model):
            module.to(self.device)

    def _start_from(self, path: Path) -> None:
        """Take the weights of a model folder, and the statistics its features were scaled by."""
        folder = read_folder(path, "speech")
        if folder.vocabularies.get("vocabulary") != self.data.vocabulary.to_json():
            raise UserError(f"{path}: writes with other characters than this recipe")
        stored = {**dict(self.model.named_children()), "normalizer": self.normalizer}
        load_weights(nn.ModuleDict(stored), path)

    def loss(self, batch: SpeechBatch, step: int) -> Losses:
        """Return cross-entropy, CTC and penalties of a batch."""
        settings = self.config.loss
        amount = float(batch.lengths.sum()) / SAMPLE_RATE
        batch = batch.to(self.device)
        features, frames = self._normalised_features(batch)
        if step >= self.config.augment.after_step:
            features = self._spec_augment(features, frames, batch.seed)
        model = self.model
        with products(self.device, self.config.training.precision):
            annotations, memory = self._remember(features, frames, batch)
            previous, expected = shift(batch.tokens, batch.token_lengths)
            share = settings.scheduled_sampling * (step >= settings.scheduled_sampling_from)
            output = decode_with_sampling(model.decoder, previous, memory, share)
            ends = annotations.mask.sum(1)
            total, parts = sequence_loss(output, expected, ends, settings, step)
            if settings.risk:
                errors = expected_errors(
                    model,
                    memory,
                    lambda: self._remember(features, frames, batch)[1],
                    step_limits((batch.lengths / SAMPLE_RATE).cpu().numpy()),
                    unpad(batch.tokens, batch.token_lengths),
                    self._wrong,
                    settings.risk_beam,
                )
                parts["risk"] = errors / int((expected != PADDING).sum())
                total = (1 - settings.risk) * total + settings.risk * parts["risk"]
            if model.ctc is not None and settings.ctc:
                parts["ctc"] = model.ctc.loss(annotations, batch.tokens, batch.token_lengths)
                total = (1 - settings.ctc) * total + settings.ctc * parts["ctc"]
        parts["loss"] = total
        return Losses(total, parts, amount)

    def _remember(
        self, features: Tensor, frames: Tensor, batch: SpeechBatch
    ) -> tuple[Annotations, Memory]:
        """Return the annotations, and what the decoder makes of those that may be attended to."""
        annotations = self.model.encoder(features, frames)
        return annotations, self.model.decoder.prepare(self._without_silence(annotations, batch))

    def _wrong(self, wanted: list[int], said: list[int]) -> float:
        """How many characters of a text are wrong."""
        decode = self.data.vocabulary.decode
        return count_characters(decode(wanted), decode(said)).errors

    def validate(self, step: int, folder: Path) -> Validation:
        """Decode the dev utterances greedily, by attention and by CTC; count errors, look at
        the attention, and draw that of the first utterance.
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
        figure = metrics["wer"] + metrics["cer"] / WHOLE
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
            features, frames = self._normalised_features(batch)
            annotations, memory = self._remember(features, frames, batch)
            limits = step_limits((batch.lengths / SAMPLE_RATE).cpu().numpy())
            hypotheses = greedy(TorchDecoder(self.model.decoder, memory), limits)
            ctc: list[list[int]] = []
            if self.model.ctc is not None:
                log_probs = self.model.ctc.log_probs(annotations)
                lengths = self.model.ctc.lengths(annotations)
                ctc = ctc_greedy(log_probs.float().cpu().numpy(), lengths.cpu().numpy())
        return Decoded(hypotheses, ctc, annotations.mask.sum(1).tolist())

    def save(self, folder: Path) -> None:
        """Write the model folder: the weights and, with them, the normaliser's statistics."""
        state = self.model.state_dict()
        for name, value in self.normalizer.state_dict().items():
            state[f"normalizer.{name}"] = value
        save_folder(
            folder,
            task="speech",
            model=to_table(self.config.model),
            vocabularies={"vocabulary": self.data.vocabulary.to_json()},
            state=state,
            notes={"recipe": to_table(self.config)},
        )

    def _normalised_features(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        features, frames = self.features(batch.samples, batch.lengths, batch.warps)
        return self.normalizer(features, frames), frames

    def _spec_augment(self, features: Tensor, frames: Tensor, seed: int) -> Tensor:
        settings = self.config.augment
        generator = torch.Generator(self.device).manual_seed(seed)
        return augment.spec_augment(
            features,
            frames,
            generator,
            time_masks=settings.time_masks,
            time_width=settings.time_width,
            time_share=settings.time_share,
            frequency_masks=settings.frequency_masks,
            frequency_width=settings.frequency_width,
        )

    def _without_silence(self, annotations: Annotations, batch: SpeechBatch) -> Annotations:
        """Keep attention off silence, where the recipe asks for it."""
        if batch.speech is None:
            return annotations
        return restrict(annotations, pool_mask(batch.speech, self.model.encoder.reduction))
