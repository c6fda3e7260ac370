"""What a training run is told, and how a TOML file and the command line tell it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr.errors import UserError
from asr.models.settings import LanguageSettings, SpeechSettings, TranslationSettings
from asr.tables import from_table

PRECISIONS = ("auto", "bf16", "fp32")


@dataclass(frozen=True)
class ManifestSettings:
    """A manifest to train on, and how often an epoch takes each of its utterances.

    times: 2 takes each twice an epoch; 0.3 takes a random three tenths of them.
    epochs: take them in so many first epochs only, e.g. synthetic speech; 0 for all.
    without: a file that lists the utterances to leave out, relative to the config, e.g. those
        to validate on where a corpus has one manifest for all; empty leaves none out.
    """

    manifest: str
    times: float = 1.0
    epochs: int = 0
    without: str = ""


@dataclass(frozen=True)
class SpeechDataSettings:
    """Manifests, relative to the folder given by `--data`.

    dev_ids: a file that lists the dev utterances to use, relative to the config; empty for all.
    dev_most: use at most so many, spread evenly over the list; 0 for all.
    noise: a manifest of recordings without speech: mixed into speech, and shown alone with an
        empty text, so that the model learns to write nothing. Those with the label
        "room-impulse-response" are the rooms of `augment.room_share`. Empty for none.
    noise_times: how often an epoch shows each of them alone.
    longest: utterances above so many seconds are left out of training (their number is told).
    cache_gigabytes: how much decoded audio to keep in memory.
    """

    train: tuple[ManifestSettings, ...]
    dev: str
    dev_ids: str = ""
    dev_most: int = 0
    noise: str = ""
    noise_times: float = 1.0
    longest: float = 20.0
    cache_gigabytes: float = 4.0


@dataclass(frozen=True)
class PairDataSettings:
    """Sentence pairs, in files relative to the folder given by `--data`, plain or .gz.

    train, dev: files of lines `source<TAB>target`; or, with train_target and dev_target, files of
        sources, of which line n is translated by line n of the other file.
    dev_list, test_list: files of source sentences, relative to the config. Their pairs (however
        the source is spelt) are taken out of train: those of dev_list to validate with, those of
        test_list for good. Without dev and dev_list, `dev_share` of the sources are held out.
    tokenised: the files hold lower-cased words and marks parted by spaces, as papers of old scored
        them; validation then scores words as they stand.
    most_words: pairs with a longer side are left out.
    limit: use only so many of the first pairs; 0 for all.
    subwords: size of a sentencepiece vocabulary, learnt from the pairs to train on; 0 takes words.
    subword_kind: "unigram" or "bpe".
    joint: one vocabulary for both sides; else each has its own, of that size.
    subword_dropout: share of the merges of "bpe" left out at random in training, so that a word
        is met in several spellings (for "unigram" see `asr.text.vocabulary.Vocabulary.sample`).
    extra: a file of such lines, relative to the config, to train on beside train, each pair
        extra_times an epoch; the vocabulary is not learnt from it.
    joined: so many times as many pairs as there are are added to train on, of two or three pairs
        in a row each; see `asr.corpora.variants.join`.
    exchange: a file of words that may stand for one another, relative to the config; see
        `asr.corpora.pairs.read_classes`.
    exchanged: so many times as many pairs are added, with another of those words in each; see
        `asr.corpora.variants.exchange`.
    renamed: likewise added, with other names and numbers in them: `asr.corpora.variants.rename`.
    spoken: so many times as many again are added with their source as a recogniser writes it, in
        small letters without marks, so that what was transcribed can be translated.
    phrases: [source, wanted target] pairs that each validation translates and shows in a table;
        where they are also in the file they are trained on, never in a random dev_share.
    """

    train: str
    train_target: str = ""
    dev: str = ""
    dev_target: str = ""
    dev_list: str = ""
    test_list: str = ""
    dev_share: float = 0.1
    tokenised: bool = False
    most_words: int = 40
    limit: int = 0
    subwords: int = 0
    subword_kind: str = "unigram"
    joint: bool = True
    subword_dropout: float = 0.0
    extra: str = ""
    extra_times: int = 1
    joined: float = 0.0
    exchange: str = ""
    exchanged: float = 0.0
    renamed: float = 0.0
    spoken: float = 0.0
    phrases: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("extra_times", "joined", "exchanged", "renamed", "spoken"):
            if (share := getattr(self, name)) < 0:
                raise UserError(f"data.{name} must not be below 0, got {share}")


@dataclass(frozen=True)
class LanguageDataSettings:
    """Texts to learn a language from, relative to the folder given by `--data`.

    train: files of lines, plain, .gz or .xz, or manifests, of which the transcripts count.
    dev: a manifest. dev_ids: as of speech.
    words: so many of the most frequent ones are known. window: words that are read in one go.
    """

    train: tuple[str, ...]
    dev: str
    dev_ids: str = ""
    words: int = 20_000
    window: int = 32


@dataclass(frozen=True)
class BatchSettings:
    """How utterances are gathered.

    size: padded seconds of audio (speech), padded target tokens (translation) or words (language)
        in a batch.
    sorted_epochs: so many first epochs go from short to long, since alignment is learnt
        from short utterances first.
    """

    size: float = 160.0
    most: int = 128  # utterances in a batch
    sorted_epochs: int = 0


@dataclass(frozen=True)
class AugmentSettings:
    """What is done to training audio; see `asr.audio.augment`. Shares are of the utterances."""

    speeds: tuple[float, ...] = (0.9, 1.0, 1.1)
    tract_lengths: tuple[float, ...] = (1.0, 1.0)  # shortest, longest; see `mel_filters`
    gain_db: float = 6.0
    noise_share: float = 0.0
    noise_snr_db: tuple[float, ...] = (5.0, 25.0)  # lowest, highest
    room_share: float = 0.0
    telephone_share: float = 0.0
    time_masks: int = 2
    time_width: int = 40
    time_share: float = 0.08
    frequency_masks: int = 2
    frequency_width: int = 20
    after_step: int = 0  # SpecAugment begins here

    def __post_init__(self) -> None:
        tract = self.tract_lengths
        if len(tract) != 2 or not 0.5 <= tract[0] <= tract[1] <= 1.5:
            raise UserError(
                f"augment.tract_lengths {list(tract)}: wanted shortest and longest, 0.5 to 1.5, "
                "for instance [0.9, 1.1]"
            )


@dataclass(frozen=True)
class LossSettings:
    """(1 − ctc)·attention + ctc·CTC, where attention is (1 − risk)·(cross-entropy + penalties of
    the weights, each with its factor) + risk·expected errors.

    risk: of the texts that a beam of `risk_beam` finds best; see
        `asr.training.losses.risk`. For models that have been trained without: it wants texts that
        are nearly right.
    consistency: of what two passes with other dropout say of each target (R-Drop), for
        translation; it takes twice the time a step.
    """

    ctc: float = 0.3
    label_smoothing: float = 0.1
    consistency: float = 0.0
    risk: float = 0.0
    risk_beam: int = 4
    entropy: float = 0.0
    entropy_target: float = 0.0  # nats
    coverage: float = 0.0
    diagonality: float = 0.0
    diagonality_steps: int = 0  # the factor falls in a straight line to 0 by this step
    scheduled_sampling: float = 0.0  # share of fed-back tokens that are the model's own
    scheduled_sampling_from: int = 0  # step

    def __post_init__(self) -> None:
        if self.risk and self.consistency:
            raise UserError("loss.risk and loss.consistency do not go together: one must be 0")
        if not 0 <= self.risk <= 1 or self.risk_beam < 2:
            raise UserError(
                "loss.risk must lie between 0 and 1 and loss.risk_beam be at least 2, got "
                f"{self.risk} and {self.risk_beam}"
            )


@dataclass(frozen=True)
class TrainingSettings:
    """The loop: AdamW with warm-up, a plateau and a straight way down to 0.

    decay_share: the last share of the steps in which the rate falls.
    average: decay of the running average of the weights, which validation and the saved
        model use; 0 turns it off.
    keep: how many of the best validated models are averaged at the end.
    patience: stop after so many validations without a better one; 0 never stops early.
    processes: how many train together; a batch is shared out between them.
    start_from: a model folder of the same sizes whose weights to begin with; empty for none. A
        translator keeps that model's vocabularies, too, whatever text it goes on with.
    precision: of the products, "bf16" or "fp32"; "auto" takes 16 bits where the device has
        instructions for them. The weights are always in 32 bits.
    accumulate: batches of which the gradients are summed for one step.
    """

    steps: int = 10_000
    rate: float = 1e-3
    warmup_steps: int = 500
    decay_share: float = 0.3
    weight_decay: float = 0.01
    clip: float = 1.0
    accumulate: int = 1
    average: float = 0.999
    keep: int = 3
    validate_every: int = 500
    log_every: int = 20
    patience: int = 0
    precision: str = "auto"
    device: str = "auto"
    processes: int = 1
    start_from: str = ""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UserError(
                f"training.precision {self.precision!r} is not one of: {', '.join(PRECISIONS)}"
            )


@dataclass(frozen=True)
class SpeechConfig:
    """A whole speech recipe: `task = "speech"`."""

    data: SpeechDataSettings
    task: str = "speech"
    seed: int = 1
    model: SpeechSettings = field(default_factory=SpeechSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if self.loss.consistency:
            raise UserError("loss.consistency is for translation; leave it out of speech")


@dataclass(frozen=True)
class TranslationConfig:
    """A whole translation recipe: `task = "translation"`."""

    data: PairDataSettings
    task: str = "translation"
    seed: int = 1
    model: TranslationSettings = field(default_factory=TranslationSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    loss: LossSettings = field(default_factory=lambda: LossSettings(ctc=0.0))
    training: TrainingSettings = field(default_factory=TrainingSettings)


@dataclass(frozen=True)
class LanguageConfig:
    """A recipe of a language model: `task = "language"`."""

    data: LanguageDataSettings
    task: str = "language"
    seed: int = 1
    model: LanguageSettings = field(default_factory=LanguageSettings)
    batches: BatchSettings = field(default_factory=lambda: BatchSettings(size=4096))
    training: TrainingSettings = field(default_factory=TrainingSettings)


Config = SpeechConfig | TranslationConfig | LanguageConfig
TASKS: dict[str, type[SpeechConfig] | type[TranslationConfig] | type[LanguageConfig]] = {
    "speech": SpeechConfig,
    "translation": TranslationConfig,
    "language": LanguageConfig,
}


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML config and apply `key.sub=value` overrides (values as in TOML, or plain text).

    Raises:
        UserError: the file is missing or not TOML, a key is unknown (the nearest known one is
            named), a value has the wrong type.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot read the config: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a TOML file: {error}") from error
    for override in overrides:
        _override(table, override)
    return config_from_table(table)


def config_from_table(table: dict[str, Any]) -> Config:
    """Build a config from its table; `task` says which kind.

    Raises:
        UserError: as in `load_config`.
    """
    task = table.get("task", "speech")
    if task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    return from_table(TASKS[task], table)


def _override(table: dict[str, Any], override: str) -> None:
    """Put one `a.b=value` into nested tables."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set wants key=value, got {override!r}; e.g. training.steps=2000")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *path, last = key.strip().split(".")
    for name in path:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override}: {name} is not a table")
    table[last] = value
