"""The config of a translation model: `task = "translation"`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from asr.errors import UserError
from asr.models.settings import TranslationSettings
from asr.tables import Settings, Unread, about, setting, share
from asr.training.config.common import LossSettings, TrainingSettings


@dataclass(frozen=True)
class PairDataSettings(Settings):
    """Sentence pairs. Files are plain or .gz, relative to the folder given by --data."""

    train: str = field(
        metadata=about(
            "Lines `source<TAB>target` to train on; with train_target, lines of sources alone."
        )
    )
    train_target: str = setting("", "File whose line n translates line n of train.")
    dev: str = setting("", "Pairs to validate on, as train.")
    dev_target: str = setting("", "File whose line n translates line n of dev.")
    dev_list: str = setting(
        "",
        "File of source sentences, relative to the config. Their pairs are taken out of train to "
        "validate on, whatever the spelling.",
    )
    test_list: str = setting(
        "", "As dev_list, but the pairs are left out altogether: to test on later."
    )
    dev_share: float = share(0.1, "Share of the sources to validate on, without dev and dev_list.")
    tokenised: bool = setting(
        False,
        "The files hold lower-cased, tokenised text; validation scores the words as they are.",
    )
    most_words: int = setting(
        40, "Longest side of a pair, in words; longer pairs are left out.", least=1
    )
    limit: int = setting(0, "Read only the first pairs of train. 0: all.", least=0)
    subwords: int = setting(
        0,
        "Size of the sentencepiece vocabulary, learnt from the training pairs. 0: words.",
        least=0,
        most=1_000_000,
    )
    subword_kind: str = setting("unigram", "Kind of subwords.", choices=("unigram", "bpe"))
    joint: bool = setting(True, "One vocabulary for both languages.")
    subword_dropout: float = share(
        0.0,
        "Subword regularisation: with bpe the share of merges that is skipped at random; for "
        "unigram see `asr.text.vocabulary.Vocabulary.sample`.",
    )
    extra: str = setting(
        "",
        "Additional pairs to train on, relative to the config; the vocabulary is not learnt from "
        "them.",
    )
    extra_times: int = setting(
        1, "How often an epoch takes each pair of extra.", least=0, most=100_000
    )
    joined: float = setting(
        0.0,
        "Pairs to add, as a share of all: two or three pairs joined to one.",
        least=0,
        most=100,
    )
    exchange: str = setting(
        "",
        "File of words that may replace each other, relative to the config; see "
        "`asr.corpora.pairs.read_classes`.",
    )
    exchanged: float = setting(
        0.0,
        "Pairs to add, as a share of all, with a word of exchange replaced.",
        least=0,
        most=100,
    )
    renamed: float = setting(
        0.0, "Pairs to add, as a share of all, with names and numbers replaced.", least=0, most=100
    )
    spoken: float = setting(
        0.0,
        "Pairs to add, as a share of all, with the source as a recogniser writes it: lower case, "
        "no punctuation.",
        least=0,
        most=100,
    )
    phrases: tuple[tuple[str, ...], ...] = setting(
        (),
        "[source, wanted target] pairs that each validation translates and prints in a table. They "
        "stay in train if they are there.",
    )

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.dev:
            yield Unread("dev_target", "without dev")
        if self.dev or self.dev_list:
            yield Unread("dev_share", "with dev or dev_list")
        if not self.subwords:
            why = "with words (subwords = 0)"
            for name in ("subword_kind", "joint", "subword_dropout", "tokenised"):
                yield Unread(name, why)
        if not self.extra:
            yield Unread("extra_times", "without extra")
        if not self.exchanged:
            yield Unread("exchange", "without exchanged words (exchanged = 0)")


@dataclass(frozen=True)
class TranslationBatchSettings(Settings):
    """How pairs are gathered into batches of like length."""

    size: float = setting(
        160.0, "Tokens in a batch: pairs times the longest side, padding included.", above=0
    )
    most: int = setting(128, "Pairs in a batch at most.", least=1)
    sorted_epochs: int = setting(0, "First epochs that go from short to long pairs.", least=0)


@dataclass(frozen=True)
class TranslationLossSettings(LossSettings):
    """The loss of a translation model: decoder + consistency · divergence of two passes (R-Drop).

    decoder = (1 − risk) · (cross-entropy + penalties) + risk · expected errors.
    """

    consistency: float = setting(
        0.0,
        "Factor of R-Drop: the divergence of two passes with different dropout. Doubles the time a "
        "step.",
        least=0,
        most=100,
    )

    def __post_init__(self) -> None:
        """Refuse values out of range, and the one pair that does not go together.

        Raises:
            UserError: the value or the pair.
        """
        super().__post_init__()
        if self.risk and self.consistency:
            raise UserError("risk and consistency do not go together: one must be 0")


@dataclass(frozen=True)
class TranslationConfig(Settings):
    """A translation model."""

    data: PairDataSettings
    task: str = setting("translation", "The task.", choices=("translation",))
    seed: int = setting(1, "Seed of everything random.", least=0)
    model: TranslationSettings = field(default_factory=TranslationSettings)
    batches: TranslationBatchSettings = field(default_factory=TranslationBatchSettings)
    loss: TranslationLossSettings = field(default_factory=TranslationLossSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
