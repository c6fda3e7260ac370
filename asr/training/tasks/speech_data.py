"""Training data of a recogniser: manifests → batches of augmented, padded audio."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from asr.audio import augment
from asr.audio.features import Normalizer
from asr.audio.read import SAMPLE_RATE, read
from asr.audio.speech import speech_mask
from asr.corpora.batching import batch_by_length, plan_batches, repeat
from asr.corpora.collate import pad_masks, pad_samples, pad_tokens
from asr.corpora.manifest import (
    ROOM,
    Utterance,
    read_manifest,
    read_noise,
    read_responses,
    select,
)
from asr.errors import UserError
from asr.models.speech import SpeechModel, Waveforms
from asr.render.durations import duration_text
from asr.text.vocabulary import Vocabulary
from asr.training.config import SpeechConfig
from asr.training.contract import WHOLE
from asr.training.journal import log_line
from asr.training.loading import AudioStore
from asr.training.tasks.texts import TextStream
from asr.training.teacher import Lesson, Targets, Teacher

STATISTICS_UTTERANCES = 1000  # enough to fix 80 means and deviations to well below 1 %
LEAST_HOURS = 5.0  # with 3 h a small model had 45.9 % CER: recipes/ablations/results/hours.md
VALIDATION_SECONDS = 300.0  # of padded audio decoded at once


class SpeechBatch(NamedTuple):
    """Recordings and their texts: tokens (B, U), token_lengths (B,).

    seeds: of the random changes of the features, one an utterance. targets: of a teacher with a
    cache. lesson: for a teacher without one. texts: (B, pieces, length), characters of text without
    recordings.
    """

    waveforms: Waveforms
    tokens: Tensor
    token_lengths: Tensor
    seeds: Sequence[int] = ()
    targets: Targets | None = None
    lesson: Lesson | None = None
    texts: Tensor | None = None

    def to(self, device: torch.device) -> SpeechBatch:
        """Move the tensors to a device (see `Waveforms.to`)."""
        return self._replace(
            waveforms=self.waveforms.to(device),
            tokens=self.tokens.to(device, non_blocking=True),
            token_lengths=self.token_lengths.to(device, non_blocking=True),
            targets=self.targets and self.targets.to(device),
            lesson=self.lesson and self.lesson.to(device),
            texts=None if self.texts is None else self.texts.to(device, non_blocking=True),
        )


class _Share(NamedTuple):
    """Examples start … start + size − 1: `times` times each in each of the first `epochs`."""

    start: int
    size: int
    times: float
    epochs: float  # infinity for all


class _Recording(NamedTuple):
    """An example as read: its place in the batch, its index, and its samples (S,)."""

    place: int
    at: int
    samples: NDArray[np.float32]


@dataclass(frozen=True)
class _Example:
    audio: Path
    tokens: list[int]
    duration: float


class SpeechData:
    """The utterances of a recipe, and batches of them."""

    def __init__(
        self, config: SpeechConfig, data: Path, config_folder: Path, run_folder: Path = Path()
    ) -> None:
        """Read the manifests.

        data: folder that the manifests' paths are relative to. config_folder: that of the lists
            of ids. run_folder: that of the cache of a teacher, see `cache_folder`.

        Raises:
            UserError: a manifest or a list cannot be read, or a list has strange ids.
        """
        self.config = config
        self.vocabulary = Vocabulary.characters()
        noise, audio_in = config.data.noise, config.data.audio_folder(data)
        recordings = read_noise(data / noise, audio_in) if noise else []
        self.noise = [each.audio for each in recordings]
        self.rooms = read_responses(data / noise, audio_in) if noise else []
        self._require_noise()
        self.examples, self._shares = self._read_training(data, config_folder, recordings)
        if config.augment.room_share:
            import scipy.signal  # noqa: F401  # slow: once, not in each process that prepares batches
        self.dev = self._read_dev(data, config_folder)
        self.teacher = self._load_teacher(run_folder)
        self.texts = self._read_texts(data)
        stores = config.training.processes * (1 + config.training.loaders)
        self.store = AudioStore(
            config.data.cache_gigabytes / stores, lambda path: read(path).samples
        )

    def _require_noise(self) -> None:
        """Refuse shares of noise or rooms without such recordings."""
        settings, listed = self.config.augment, self.config.data.noise
        if settings.noise_share and not self.noise:
            raise UserError(
                f"augment.noise_share = {settings.noise_share:g} wants recordings without speech; "
                f"data.noise = {listed!r} lists rooms alone (lines with the label {ROOM!r})"
            )
        if settings.room_share and not self.rooms:
            raise UserError(
                f"augment.room_share = {settings.room_share:g} wants room impulse responses; "
                f"data.noise = {listed!r} lists none (lines with the label {ROOM!r})"
            )

    def _load_teacher(self, run_folder: Path) -> Teacher | None:
        settings = self.config.teacher
        if not settings.model:
            return None
        cache = cache_folder(settings.cache, run_folder)
        if settings.teaches_more:
            return Teacher(Path(settings.model), self.vocabulary, frames=cache)
        return Teacher(Path(settings.model), self.vocabulary, cache)

    def _read_texts(self, data: Path) -> TextStream | None:
        settings = self.config.text
        if not settings.files:
            return None
        paths = [data / name for name in settings.files]
        texts = TextStream(paths, self.vocabulary, settings.length)
        log_line(f"{len(texts)} characters of text without recordings")
        return texts

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch."""
        batches = self.config.batches
        random = np.random.default_rng((self.config.seed, epoch))
        chosen = np.concatenate(
            [
                share.start + repeat(share.times, share.size, random)
                for share in self._shares
                if epoch < share.epochs
            ]
        )
        planned = plan_batches(
            [self.examples[index].duration for index in chosen],
            batches.size,
            batches.most,
            random,
            short_first=epoch < batches.sorted_epochs,
        )
        return [[int(chosen[place]) for place in batch] for batch in planned]

    def make(
        self, epoch: int, position: int, indices: list[int], part: slice = WHOLE
    ) -> SpeechBatch:
        """Read, augment and pad utterances of one batch; see `asr.training.contract.Task.make`."""
        places = range(len(indices))[part]
        shortest, longest = self.config.augment.tract_lengths
        waveforms, clean, factors, warps, seeds, texts = [], [], [], [], [], []
        recordings = self._recordings([(place, indices[place]) for place in places])
        for place, at, recording in recordings:
            random = np.random.default_rng((self.config.seed, epoch, position, place))
            factor = float(random.choice(self.config.augment.speeds))
            samples = augment.speed(recording, factor)
            clean.append(samples)
            factors.append(factor)
            waveforms.append(self._augmented(samples, self.examples[at], random))
            warps.append(float(random.uniform(shortest, longest)))
            seeds.append(int(random.integers(2**62)))
            if self.texts is not None:
                texts.append(self.texts.cut(self.config.text.pieces, random))
        tokens = [self.examples[at].tokens for _, at, _ in recordings]
        batch = self._collate(waveforms, tokens)._replace(seeds=seeds)
        if self.teacher is not None:
            batch = self._taught(self.teacher, batch, clean, factors)
        if texts:
            batch = batch._replace(texts=torch.from_numpy(np.stack(texts)))
        if shortest == longest == 1:
            return batch
        warped = batch.waveforms._replace(warps=torch.tensor(warps, dtype=torch.float64))
        return batch._replace(waveforms=warped)

    def dev_batches(self) -> Iterator[tuple[list[Utterance], SpeechBatch]]:
        """Yield the dev utterances, from short to long, without augmentation."""
        for batch in batch_by_length([each.duration for each in self.dev], VALIDATION_SECONDS):
            utterances = [self.dev[index] for index in batch]
            waveforms = [self.store[each.audio] for each in utterances]
            tokens = [self.vocabulary.encode(each.text) for each in utterances]
            yield utterances, self._collate(waveforms, tokens)

    def _read_training(
        self, data: Path, config_folder: Path, noise: Sequence[Utterance]
    ) -> tuple[list[_Example], list[_Share]]:
        """Read the training manifests; add noise recordings as utterances with an empty text."""
        examples: list[_Example] = []
        shares: list[_Share] = []
        too_long: list[Utterance] = []
        audio_in = self.config.data.audio_folder(data)
        for entry in self.config.data.train:
            utterances = read_manifest(data / entry.manifest, audio_in)
            if entry.without:
                utterances = _without(utterances, config_folder / entry.without)
            kept = self._short(utterances, too_long)
            shares.append(_Share(len(examples), len(kept), entry.times, entry.epochs or math.inf))
            examples += [_example(each, self.vocabulary) for each in kept]
        seconds = sum(each.duration for each in examples)
        if noise:
            kept = self._short(noise, too_long)
            times = self.config.data.noise_times
            shares.append(_Share(len(examples), len(kept), times, math.inf))
            examples += [_example(each, self.vocabulary) for each in kept]
        if too_long:
            left_out = "1 utterance" if len(too_long) == 1 else f"{len(too_long)} utterances"
            log_line(
                f"{left_out} above {self.config.data.longest} s left out of training, such as "
                f"{too_long[0].id!r} with {too_long[0].duration:.1f} s"
            )
        log_line(f"{len(examples)} utterances to train on, {duration_text(seconds)}")
        if seconds < 3600 * LEAST_HOURS and not self.config.training.start_from:
            log_line(
                f"{duration_text(seconds)} of speech are too little to train a recogniser from "
                "random weights (docs/own-data.md); to start from a trained one: asr train --from "
                "english MANIFEST RUN_FOLDER"
            )
        return examples, shares

    def _short(self, utterances: Sequence[Utterance], too_long: list[Utterance]) -> list[Utterance]:
        """Return those that are not too long, and add the others to `too_long`."""
        longest = self.config.data.longest
        too_long += [each for each in utterances if each.duration > longest]
        return [each for each in utterances if each.duration <= longest]

    def _read_dev(self, data: Path, config_folder: Path) -> list[Utterance]:
        """Read the dev utterances, from short to long, so that batches have little padding."""
        settings = self.config.data
        utterances = read_manifest(data / settings.dev, settings.audio_folder(data))
        if settings.dev_ids:
            utterances = select(utterances, config_folder / settings.dev_ids)
        if settings.dev_most:
            stride = math.ceil(len(utterances) / settings.dev_most)
            utterances = utterances[::stride]
        return sorted(utterances, key=lambda each: each.duration)

    def fit_normalizer(self, model: SpeechModel) -> None:
        """Fit the normalisation of a model to the features of some training utterances."""
        random = np.random.default_rng(self.config.seed)
        count = min(STATISTICS_UTTERANCES, len(self.examples))
        chosen = random.choice(len(self.examples), count, replace=False)
        normalizer = model.normalizer
        device = normalizer.mean.device

        def measured() -> Iterator[tuple[Tensor, Tensor]]:
            for index in chosen:
                samples = torch.from_numpy(self.store[self.examples[index].audio])
                length = torch.tensor([len(samples)], device=device)
                yield model.features(samples[None].to(device), length)

        fitted = Normalizer.fit(measured(), model.features.size, normalizer.per_utterance_mean)
        normalizer.load_state_dict(fitted.state_dict())

    def _taught(
        self,
        teacher: Teacher,
        batch: SpeechBatch,
        clean: Sequence[NDArray[np.float32]],
        factors: Sequence[float],
    ) -> SpeechBatch:
        """Add what a teacher needs or knows; clean: samples (S,), each at a factor of its speed."""
        wanted = [factor == 1 or self.config.teacher.other_speeds for factor in factors]
        if not teacher.has_cache:
            samples, lengths = map(torch.from_numpy, pad_samples(clean))
            lesson = Lesson(Waveforms(samples, lengths), torch.tensor(wanted))
            return batch._replace(lesson=lesson)
        none = np.zeros((0, len(self.vocabulary)), np.float32)
        targets = [
            torch.from_numpy(teacher.cached(samples) if is_wanted else none)
            for samples, is_wanted in zip(clean, wanted, strict=True)
        ]
        lengths = torch.tensor([len(each) for each in targets])
        return batch._replace(targets=Targets(pad_sequence(targets, batch_first=True), lengths))

    def _recordings(self, wanted: Sequence[tuple[int, int]]) -> list[_Recording]:
        """Read the recordings of places and indices; without those that cannot be read.

        If none can be read, the shortest of all that can takes their place, since a step needs a
        batch in every process.

        Raises:
            UserError: too many recordings cannot be read.
        """
        read = [(*each, self.store.readable(self.examples[each[1]].audio)) for each in wanted]
        found = [
            _Recording(place, at, samples) for place, at, samples in read if samples is not None
        ]
        if found:
            return found
        for at in sorted(range(len(self.examples)), key=lambda at: self.examples[at].duration):
            samples = self.store.readable(self.examples[at].audio)
            if samples is not None:
                return [_Recording(wanted[0][0], at, samples)]
        raise UserError("no recording can be read")

    def _augmented(
        self, samples: NDArray[np.float32], example: _Example, random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Augment without a change of times: room, noise, level, telephone."""
        settings = self.config.augment
        if settings.room_share and random.random() < settings.room_share:
            room = self.store.readable(self.rooms[int(random.integers(len(self.rooms)))])
            if room is not None:
                samples = augment.reverberate(samples, room)
        if self.noise and example.tokens and random.random() < settings.noise_share:
            noise = self.store.readable(self.noise[int(random.integers(len(self.noise)))])
            lowest, highest = settings.noise_snr_db
            ratio = float(random.uniform(lowest, highest))
            if noise is not None:
                samples = augment.add_noise(samples, noise, ratio, int(random.integers(len(noise))))
        samples = augment.volume(samples, float(random.uniform(-1, 1)) * settings.gain_db)
        if settings.telephone_share and random.random() < settings.telephone_share:
            samples = augment.telephone(samples, SAMPLE_RATE)
        return samples

    def _collate(
        self, waveforms: Sequence[NDArray[np.float32]], tokens: Sequence[list[int]]
    ) -> SpeechBatch:
        samples, lengths = map(torch.from_numpy, pad_samples(waveforms))
        padded, token_lengths = map(torch.from_numpy, pad_tokens(tokens))
        speech = None
        if self.config.model.attention.silence_mask:
            speech = torch.from_numpy(pad_masks([speech_mask(each) for each in waveforms]).values)
        return SpeechBatch(Waveforms(samples, lengths, speech), padded, token_lengths)


def cache_folder(name: str, run_folder: Path) -> Path | None:
    """Return the folder of a cache: relative to the run folder, unless the current folder has it.

    name: empty for none.
    """
    if not name:
        return None
    return Path(name) if Path(name).is_dir() else run_folder / name


def _without(utterances: Sequence[Utterance], ids_file: Path) -> list[Utterance]:
    """Return the utterances whose ids a file does not list; raises as `select`."""
    left_out = {each.id for each in select(utterances, ids_file)}
    return [each for each in utterances if each.id not in left_out]


def _example(utterance: Utterance, vocabulary: Vocabulary) -> _Example:
    return _Example(utterance.audio, vocabulary.encode(utterance.text), utterance.duration)
