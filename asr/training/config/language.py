"""The config of a language model: `task = "language"`."""

from __future__ import annotations

from dataclasses import dataclass, field

from asr.models.settings import LanguageSettings
from asr.tables import Settings, about, setting
from asr.training.config.common import TrainingSettings


@dataclass(frozen=True)
class LanguageDataSettings(Settings):
    """Texts to train on, and transcripts to validate on."""

    train: tuple[str, ...] = field(
        metadata=about(
            "Files relative to the folder given by --data: lines of text, plain, .gz or .xz, or "
            "manifests, whose transcripts are used."
        )
    )
    dev: str = field(metadata=about("Manifest whose transcripts are validated on."))
    dev_ids: str = setting(
        "", "File of dev utterance ids to use, relative to the config. Empty: all."
    )
    words: int = setting(
        20_000,
        "Size of the vocabulary: the words of the model to start from, if any, and then the most "
        "frequent ones.",
        least=1,
        most=10_000_000,
    )
    window: int = setting(32, "Words in a training sequence.", least=1, most=100_000)


@dataclass(frozen=True)
class LanguageBatchSettings(Settings):
    """Batches of word sequences."""

    size: float = setting(4096.0, "Words in a batch.", above=0)


@dataclass(frozen=True)
class LanguageConfig(Settings):
    """A language model of words."""

    data: LanguageDataSettings
    task: str = setting("language", "The task.", choices=("language",))
    seed: int = setting(1, "Seed of everything random.", least=0)
    model: LanguageSettings = field(default_factory=LanguageSettings)
    batches: LanguageBatchSettings = field(default_factory=LanguageBatchSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
