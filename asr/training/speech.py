"""The speech task: manifests in, a recogniser's loss and its free-running dev WER out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.attention.masks import pool_mask, restrict
from asr.audio import augment
from asr.attention.contract import Annotations
from asr.attention.penalties import entropy
from asr.audio.features import LogMel, Normalizer
from asr.audio.read import SAMPLE_RATE, read
from asr.audio.speech import speech_mask
from asr.corpora.manifest import Utterance, read_manifest, read_noise, select
from asr.models.checkpoint import save_folder
from asr.models.seq2seq import build_speech_model
from asr.scoring.words import ErrorCounts, Scored, count_characters, count_words
from asr.search.greedy import ctc_greedy, greedy
from asr.search.hypothesis import Hypothesis
from asr.search.limits import step_limits
from asr.settings import to_table
from asr.text.vocabulary import Vocabulary
from asr.training.batches import AudioStore, plan_batches, repeat
from asr.training.config import SpeechConfig
from asr.training.loop import Losses, Validation, choose_device, tell
from asr.training.sequences import decode_with_sampling, pad, sequence_loss, shift

STATISTICS_UTTERANCES = 1000  # enough to fix 80 means and deviations to well below 1 %
VALIDATION_SECONDS = 300.0  # of padded audio decoded at once


class SpeechBatch(NamedTuple):
    """samples: (B, S). lengths: (B,) samples. tokens: (B, U). token_lengths: (B,).

    speech: (B, F) bool, True where there is speech; None where no silence mask is asked for.
    seed: of what is drawn at random on the device.
    """

    samples: Tensor
    lengths: Tensor
    tokens: Tensor
    token_lengths: Tensor
    speech: Tensor | None
    seed: int


class Decoded(NamedTuple):
    """What greedy search wrote for a batch; ctc is empty where the model has no CTC head."""

    hypotheses: list[Hypothesis]
    ctc: list[list[int]]


class _Share(NamedTuple):
    """Examples start … start + count − 1, each taken so many times an epoch."""

    start: int
    count: int
    times: float


@dataclass(frozen=True)
class _Example:
    audio: Path
    tokens: list[int]
    duration: float


class SpeechTask:
    """All that the loop asks of speech; see `asr.training.loop.Task`."""

    unit = "audio_seconds"

    def __init__(self, config: SpeechConfig, data: Path, config_folder: Path) -> None:
        self.config = config
        self.device = choose_device(config.training.device)
        self.vocabulary = Vocabulary.characters()
        self.examples, self._shares = self._read_training(data)
        self.noise = [each.audio for each in self.examples if not each.tokens]
        self.dev = self._read_dev(data, config_folder)
        self.store = AudioStore(config.data.cache_gigabytes, lambda path: read(path).samples)
        torch.manual_seed(config.seed)
        self.features = LogMel(mels=config.model.features.mels)
        self.normalizer = self._fit_normalizer()
        self.model = build_speech_model(config.model, len(self.vocabulary))
        for module in (self.features, self.normalizer, self.model):
            module.to(self.device)

    # what to train on

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch."""
        batches = self.config.batches
        random = np.random.default_rng((self.config.seed, epoch))
        chosen = np.concatenate(
            [start + repeat(times, count, random) for start, count, times in self._shares]
        )
        planned = plan_batches(
            [self.examples[index].duration for index in chosen],
            batches.size,
            batches.most,
            random,
            short_first=epoch < batches.sorted_epochs,
        )
        return [[int(chosen[place]) for place in batch] for batch in planned]

    def make(self, epoch: int, position: int, indices: list[int]) -> SpeechBatch:
        """Read, change and pad the utterances of one batch."""
        random = np.random.default_rng((self.config.seed, epoch, position))
        heard = [self._hear(self.examples[index], random) for index in indices]
        tokens = [self.examples[index].tokens for index in indices]
        return self._collate(heard, tokens, seed=int(random.integers(2**62)))

    def loss(self, batch: SpeechBatch, step: int) -> Losses:
        """Return cross-entropy, CTC and penalties of a batch."""
        settings = self.config.loss
        amount = float(batch.lengths.sum()) / SAMPLE_RATE
        batch = _moved(batch, self.device)
        features, frames = self._normalised_features(batch)
        if step >= self.config.augment.after_step:
            features = self._spec_augment(features, frames, batch.seed)
        model = self.model
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._uses_bf16):
            annotations = model.encoder(features, frames)
            memory = model.decoder.prepare(self._without_silence(annotations, batch))
            previous, expected = shift(batch.tokens, batch.token_lengths)
            share = settings.scheduled_sampling * (step >= settings.scheduled_sampling_from)
            output = decode_with_sampling(model.decoder, previous, memory, share)
            ends = annotations.mask.sum(1)
            total, parts = sequence_loss(output, expected, ends, settings, step)
            if model.ctc is not None and settings.ctc:
                parts["ctc"] = model.ctc.loss(annotations, batch.tokens, batch.token_lengths)
                total = (1 - settings.ctc) * total + settings.ctc * parts["ctc"]
        parts["loss"] = total
        return Losses(total, parts, amount)

    # what has been learnt

    def validate(self, step: int, folder: Path) -> Validation:
        """Decode the dev utterances greedily, by attention and by CTC, and count their errors."""
        scored: list[Scored] = []
        ctc_errors = ErrorCounts()
        entropies: list[Tensor] = []
        for utterances, batch in self._dev_batches():
            decoded = self.decode(batch)
            for place, utterance in enumerate(utterances):
                hypothesis = decoded.hypotheses[place]
                text = self.vocabulary.decode(hypothesis.tokens)
                scored.append(Scored(utterance.id, utterance.text, text))
                entropies.append(entropy(hypothesis.weights).mean())
                if decoded.ctc:
                    ctc_text = self.vocabulary.decode(decoded.ctc[place])
                    ctc_errors += count_characters(utterance.text, ctc_text)
        words = _sum(count_words(each.reference, each.hypothesis) for each in scored)
        characters = _sum(count_characters(each.reference, each.hypothesis) for each in scored)
        metrics = {"wer": 100 * words.rate, "cer": 100 * characters.rate}
        if self.model.ctc is not None:
            metrics["ctc_cer"] = 100 * ctc_errors.rate
        metrics["entropy"] = float(torch.stack(entropies).mean())
        metrics["longest_ratio"] = max(
            len(each.hypothesis) / max(1, len(each.reference)) for each in scored
        )
        return Validation(metrics["wer"] + metrics["cer"] / 100, metrics, "")

    def decode(self, batch: SpeechBatch) -> Decoded:
        """Decode a batch greedily, by attention and by CTC."""
        batch = _moved(batch, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._uses_bf16):
            features, frames = self._normalised_features(batch)
            annotations = self.model.encoder(features, frames)
            memory = self.model.decoder.prepare(self._without_silence(annotations, batch))
            limits = step_limits(batch.lengths / SAMPLE_RATE)
            hypotheses = greedy(self.model.decoder, memory, limits)
            ctc: list[list[int]] = []
            if self.model.ctc is not None:
                log_probs = self.model.ctc.log_probs(annotations)
                ctc = ctc_greedy(log_probs, self.model.ctc.lengths(annotations))
        return Decoded(hypotheses, ctc)

    def save(self, folder: Path) -> None:
        """Write the model folder: the weights and, with them, the normaliser's statistics."""
        state = self.model.state_dict()
        for name, value in self.normalizer.state_dict().items():
            state[f"normalizer.{name}"] = value
        save_folder(
            folder,
            task="speech",
            model=to_table(self.config.model),
            vocabularies={"vocabulary": self.vocabulary.to_json()},
            state=state,
            notes={"recipe": to_table(self.config)},
        )

    # reading and preparing

    @property
    def _uses_bf16(self) -> bool:
        return self.config.training.precision == "bf16"

    def _read_training(self, data: Path) -> tuple[list[_Example], list[_Share]]:
        """Read the training manifests, and the noise recordings as utterances without words."""
        examples: list[_Example] = []
        shares: list[_Share] = []
        too_long = 0
        for entry in self.config.data.train:
            utterances = read_manifest(data / entry.manifest)
            kept = [each for each in utterances if each.duration <= self.config.data.longest]
            too_long += len(utterances) - len(kept)
            shares.append(_Share(len(examples), len(kept), entry.times))
            examples += [_example(each, self.vocabulary) for each in kept]
        if self.config.data.noise:
            noise = read_noise(data / self.config.data.noise)
            shares.append(_Share(len(examples), len(noise), self.config.data.noise_times))
            examples += [_example(each, self.vocabulary) for each in noise]
        if too_long:
            tell(f"{too_long} utterances above {self.config.data.longest} s are left out")
        hours = sum(each.duration for each in examples) / 3600
        tell(f"{len(examples)} utterances to train on, {hours:.2f} h")
        return examples, shares

    def _read_dev(self, data: Path, config_folder: Path) -> list[Utterance]:
        """Read the dev utterances, from short to long so that batches waste little."""
        settings = self.config.data
        utterances = read_manifest(data / settings.dev)
        if settings.dev_ids:
            utterances = select(utterances, config_folder / settings.dev_ids)
        if settings.dev_most:
            stride = math.ceil(len(utterances) / settings.dev_most)
            utterances = utterances[::stride]
        return sorted(utterances, key=lambda each: each.duration)

    def _fit_normalizer(self) -> Normalizer:
        """Measure mean and deviation of the features over some training utterances."""
        random = np.random.default_rng(self.config.seed)
        count = min(STATISTICS_UTTERANCES, len(self.examples))
        chosen = random.choice(len(self.examples), count, replace=False)

        def measured() -> Iterator[tuple[Tensor, Tensor]]:
            for index in chosen:
                samples = torch.from_numpy(self.store[self.examples[index].audio])
                yield self.features(samples[None], torch.tensor([len(samples)]))

        settings = self.config.model.features
        return Normalizer.fit(measured(), settings.mels, settings.utterance_mean)

    def _hear(self, example: _Example, random: np.random.Generator) -> NDArray[np.float32]:
        """Read an utterance and change its speed, level and surroundings."""
        settings = self.config.augment
        samples = self.store[example.audio]
        samples = augment.speed(samples, float(random.choice(settings.speeds)))
        if self.noise and example.tokens and random.random() < settings.noise_share:
            noise = self.store[self.noise[int(random.integers(len(self.noise)))]]
            lowest, highest = settings.noise_snr_db
            ratio = float(random.uniform(lowest, highest))
            samples = augment.add_noise(samples, noise, ratio, int(random.integers(len(noise))))
        return augment.volume(samples, float(random.uniform(-1, 1)) * settings.gain_db)

    def _collate(
        self, heard: Sequence[NDArray[np.float32]], tokens: Sequence[list[int]], seed: int
    ) -> SpeechBatch:
        longest = max(len(each) for each in heard)
        samples = torch.zeros(len(heard), longest)
        for row, each in zip(samples, heard, strict=True):
            row[: len(each)] = torch.from_numpy(each)
        lengths = torch.tensor([len(each) for each in heard])
        padded, token_lengths = pad(tokens)
        speech = None
        if self.config.model.attention.silence_mask:
            frames = int(self.features.frame_lengths(lengths).max())
            speech = torch.zeros(len(heard), frames, dtype=torch.bool)
            for row, each in zip(speech, heard, strict=True):
                mask = speech_mask(each)
                row[: len(mask)] = torch.from_numpy(mask)
        return SpeechBatch(samples, lengths, padded, token_lengths, speech, seed)

    def _normalised_features(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        features, frames = self.features(batch.samples, batch.lengths)
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

    def _dev_batches(self) -> Iterator[tuple[list[Utterance], SpeechBatch]]:
        start = 0
        while start < len(self.dev):
            stop = start + 1
            while stop < len(self.dev) and (
                self.dev[stop].duration * (stop + 1 - start) <= VALIDATION_SECONDS
            ):
                stop += 1
            utterances = self.dev[start:stop]
            heard = [self.store[each.audio] for each in utterances]
            tokens = [self.vocabulary.encode(each.text) for each in utterances]
            yield utterances, self._collate(heard, tokens, seed=0)
            start = stop


def _example(utterance: Utterance, vocabulary: Vocabulary) -> _Example:
    return _Example(utterance.audio, vocabulary.encode(utterance.text), utterance.duration)


def _moved(batch: SpeechBatch, device: torch.device) -> SpeechBatch:
    return batch._replace(
        samples=batch.samples.to(device, non_blocking=True),
        lengths=batch.lengths.to(device, non_blocking=True),
        tokens=batch.tokens.to(device, non_blocking=True),
        token_lengths=batch.token_lengths.to(device, non_blocking=True),
        speech=None if batch.speech is None else batch.speech.to(device, non_blocking=True),
    )


def _sum(counts: Iterable[ErrorCounts]) -> ErrorCounts:
    return sum(counts, ErrorCounts())
