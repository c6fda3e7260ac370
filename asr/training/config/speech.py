"""The config of a recogniser: `task = "speech"`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from asr.corpora.remarks import LONGEST_TRAINED
from asr.errors import UserError
from asr.models.settings import SpeechSettings
from asr.tables import Settings, Unread, about, setting, share
from asr.training.config.common import LossSettings, TrainingSettings


@dataclass(frozen=True)
class ManifestSettings(Settings):
    """A manifest to train on; one table for each."""

    manifest: str = field(metadata=about("File, relative to the folder given by --data."))
    times: float = setting(
        1.0,
        "How often an epoch takes each utterance: 2 takes each twice, 0.3 a random 30 %.",
        least=0,
        most=1000,
    )
    epochs: int = setting(0, "Use it in this many first epochs only. 0: in all.", least=0)
    without: str = setting(
        "",
        "File of utterance ids to leave out, relative to the config, such as those to validate on.",
    )


@dataclass(frozen=True)
class SpeechDataSettings(Settings):
    """Recordings to train and validate on."""

    train: tuple[ManifestSettings, ...] = field(metadata=about("Manifests to train on."))
    dev: str = field(
        metadata=about("Manifest to validate on, relative to the folder given by --data.")
    )
    dev_ids: str = setting(
        "", "File of dev utterance ids to use, relative to the config. Empty: all."
    )
    dev_most: int = setting(
        0, "Use at most this many dev utterances, evenly spaced. 0: all.", least=0
    )
    noise: str = setting(
        "",
        "Manifest of recordings without speech. They are mixed into speech (augment.noise_share) "
        'and trained on with an empty text; lines with the label "room-impulse-response" are the '
        "rooms of augment.room_share.",
    )
    audio_in: str = setting(
        "",
        "Folder that all audio of the manifests must lie in, relative to the folder given by "
        "--data. Empty: that of each manifest.",
    )
    noise_times: float = setting(
        1.0,
        "How often an epoch takes each noise recording with an empty text.",
        least=0,
        most=1000,
    )
    longest: float = setting(
        LONGEST_TRAINED,
        "Longest utterance to train on, in seconds; longer ones are left out.",
        above=0,
    )
    frame_cache: str = setting(
        "",
        'Folder in which the frames of model.encoder.kind = "frozen" are cached, by the content '
        "of the audio. It is relative to the run folder, unless the current folder has it. Empty: "
        "they are computed in every epoch.",
    )
    cache_gigabytes: float = setting(
        4.0,
        "Memory for decoded audio, in gigabytes, divided among training.processes and "
        "training.loaders; loaders begin each epoch without what they have read.",
        least=0,
        most=100_000,
    )

    def audio_folder(self, data: Path) -> Path | None:
        """Return the folder of `audio_in`, None if it is empty; data: that given by --data."""
        return data / self.audio_in if self.audio_in else None

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.noise:
            yield Unread("noise_times", "without noise recordings (noise is empty)")


@dataclass(frozen=True)
class SpeechBatchSettings(Settings):
    """Batches of utterances of similar length."""

    size: float = setting(160.0, "Seconds of audio in a batch, padding included.", above=0)
    most: int = setting(128, "Utterances in a batch at most.", least=1)
    sorted_epochs: int = setting(
        0,
        "First epochs that go from short to long utterances: alignment is learnt from short ones "
        "first.",
        least=0,
    )


@dataclass(frozen=True)
class AugmentSettings(Settings):
    """Random changes of the training audio; see `asr.audio.augment`. Shares: of utterances."""

    speeds: tuple[float, ...] = setting(
        (0.9, 1.0, 1.1), "Factors of the speed, one drawn an utterance.", least=0.5, most=2
    )
    tract_lengths: tuple[float, ...] = setting(
        (1.0, 1.0),
        "Shortest and longest vocal tract, relative to the speaker's own (VTLP).",
        least=0.5,
        most=1.5,
    )
    gain_db: float = setting(6.0, "Largest change of the level, in dB.", least=0, most=60)
    noise_share: float = share(0.0, "Share with noise of data.noise mixed in.")
    noise_snr_db: tuple[float, ...] = setting(
        (5.0, 25.0), "Lowest and highest signal-to-noise ratio, in dB.", least=-60, most=120
    )
    room_share: float = share(0.0, "Share that is reverberated by a room of data.noise.")
    telephone_share: float = share(0.0, "Share reduced to the band of a telephone.")
    time_masks: int = setting(2, "SpecAugment: masks over time.", least=0, most=1000)
    time_width: int = setting(
        40,
        "Widest mask over time, in frames: of 10 ms, or 40 ms with a frozen encoder.",
        least=0,
        most=100_000,
    )
    time_share: float = share(0.08, "Widest mask over time, as a share of the utterance.")
    frequency_masks: int = setting(
        2,
        "SpecAugment: masks over mel bands, or over channels of a frozen encoder.",
        least=0,
        most=1000,
    )
    frequency_width: int = setting(20, "Widest mask over mel bands or channels.", least=0, most=256)
    feature_noise: float = setting(
        0.0,
        "Deviation of Gaussian noise that is added to the normalised features.",
        least=0,
        most=10,
    )
    after_step: int = setting(0, "First step with SpecAugment and feature noise.", least=0)

    def __post_init__(self) -> None:
        """Refuse values out of range and invalid pairs.

        Raises:
            UserError: the value.
        """
        super().__post_init__()
        if not self.speeds:
            raise UserError("speeds is empty; [1.0] leaves the speed as it is")
        for name in ("tract_lengths", "noise_snr_db"):
            pair = getattr(self, name)
            if len(pair) != 2:
                raise UserError(f"{name} wants two numbers, got {list(pair)}")
            if pair[0] > pair[1]:
                raise UserError(f"{name} wants the lower value first, got {list(pair)}")

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.noise_share:
            yield Unread("noise_snr_db", "without noise (noise_share = 0)")
        if not self.time_masks:
            for name in ("time_width", "time_share"):
                yield Unread(name, "without masks over time (time_masks = 0)")
        if not self.frequency_masks:
            yield Unread("frequency_width", "without masks over mel bands (frequency_masks = 0)")
        if not (self.time_masks or self.frequency_masks or self.feature_noise):
            why = "without masks or noise (time_masks = frequency_masks = feature_noise = 0)"
            yield Unread("after_step", why)


@dataclass(frozen=True)
class SpeechLossSettings(LossSettings):
    """The loss of a recogniser: (1 − ctc) · decoder + ctc · CTC.

    decoder = (1 − risk) · (cross-entropy + penalties) + risk · expected errors.
    """

    ctc: float = share(0.3, "Weight of CTC in the loss.")


@dataclass(frozen=True)
class TeacherSettings(Settings):
    """A trained model whose distributions are learnt (distillation); needed in training only.

    It gets each recording after the change of speed and before all other augmentation.
    """

    model: str = setting(
        "", "Model folder, or name of a model of the package, such as english-plus. Empty: none."
    )
    share: float = share(
        0.7,
        "Share of the divergence from the teacher in the loss of the CTC head; the rest is CTC. "
        "At 1, CTC uses no transcripts.",
    )
    outputs: float = setting(
        0.0,
        "Share of the divergence from the teacher's decoder in the loss of the decoder, each step "
        "after the transcript's tokens; the rest is cross-entropy and penalties.",
        least=0,
        most=1,
    )
    alignments: float = setting(
        0.0,
        "Factor of the divergence from the teacher's attention weights, added to the loss of the "
        "decoder. Both models need annotations of the same length in seconds.",
        least=0,
    )
    annotations: float = setting(
        0.0,
        "Factor of the divergence of how similar the encoder's annotations are to one another from "
        "how similar the teacher's are, added to the loss. Both models need annotations of the "
        "same length in seconds.",
        least=0,
    )
    cache: str = setting(
        "",
        "Folder of a cache by the content of the audio: of its distributions, 7 MB an hour, or, "
        "with outputs, alignments or annotations above 0, of the frames of its public encoder "
        "(Whisper base: 92 MB an hour). "
        "It is relative to the run folder, unless the current folder has it. "
        "Empty: they are computed with each batch, on the device of the training.",
    )
    other_speeds: bool = setting(
        True,
        "Whether recordings at another speed (augment.speeds) have targets too; a cache keeps each "
        "speed apart. false: they are learnt from their transcripts alone.",
    )

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.model:
            for name in ("share", "outputs", "alignments", "annotations", "cache", "other_speeds"):
                yield Unread(name, "without a teacher (model is empty)")

    @property
    def teaches_decoder(self) -> bool:
        """Whether the decoder learns from that of the teacher."""
        return bool(self.outputs or self.alignments)

    @property
    def teaches(self) -> list[str]:
        """What is learnt from the teacher, in words."""
        parts = {
            "CTC": self.share,
            "decoder": self.outputs,
            "attention weights": self.alignments,
            "annotations": self.annotations,
        }
        return [name for name, factor in parts.items() if factor]

    @property
    def teaches_more(self) -> bool:
        """Whether the teacher teaches more than the CTC head, so that it runs with each batch."""
        return self.teaches_decoder or bool(self.annotations)


@dataclass(frozen=True)
class TextSettings(Settings):
    """Text without recordings, from which the decoder learns its internal language model.

    Pieces of it are trained on with each batch of speech: the only annotation of a piece is the
    mean of those of a recording.
    """

    files: tuple[str, ...] = setting(
        (), "Text files, or manifests, relative to the folder given by --data. Empty: none."
    )
    factor: float = setting(
        0.3, "Factor of the cross-entropy of the pieces, added to the loss.", above=0, most=100
    )
    pieces: int = setting(4, "Pieces for each recording.", least=1, most=1000)
    length: int = setting(160, "Characters of a piece.", least=2, most=10_000)

    def unread(self) -> Iterator[Unread]:
        """See `Settings.unread`."""
        if not self.files:
            for name in ("factor", "pieces", "length"):
                yield Unread(name, "without text (files is empty)")


@dataclass(frozen=True)
class SpeechConfig(Settings):
    """A speech recogniser."""

    data: SpeechDataSettings
    task: str = setting("speech", "The task.", choices=("speech",))
    seed: int = setting(1, "Seed of everything random.", least=0)
    model: SpeechSettings = field(default_factory=SpeechSettings)
    batches: SpeechBatchSettings = field(default_factory=SpeechBatchSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    loss: SpeechLossSettings = field(default_factory=SpeechLossSettings)
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    text: TextSettings = field(default_factory=TextSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        """Refuse keys that a key of another section switches off.

        Raises:
            UserError: the key.
        """
        super().__post_init__()
        defaults = SpeechLossSettings()
        if not self.model.ctc.subframes and self.loss.ctc not in (0, defaults.ctc):
            raise UserError(
                f"loss.ctc = {self.loss.ctc} is not read without a CTC head "
                "(model.ctc.subframes = 0); the nearest key that is read: loss.label_smoothing"
            )
        if self.teacher.model and not (self.model.ctc.subframes and self.loss.ctc):
            raise UserError(
                f'teacher.model = "{self.teacher.model}" is not read without a CTC head and its '
                "loss; the nearest keys that are read: model.ctc.subframes and loss.ctc"
            )
        self._check_frozen()
        epochs = [each.epochs for each in self.data.train]
        if epochs and all(epochs):
            raise UserError(
                f"data.train: all manifests have `epochs`, so that none is left after {max(epochs)}"
                "; leave it out for one that all epochs use"
            )
        if self.augment.noise_share and not self.data.noise:
            raise UserError(
                f"augment.noise_share = {self.augment.noise_share} is not read without noise "
                "recordings; the nearest key: data.noise"
            )

    def _check_frozen(self) -> None:
        """Refuse keys that only one kind of encoder reads."""
        if self.model.encoder.kind != "frozen":
            if self.data.frame_cache:
                raise UserError(
                    f'data.frame_cache = "{self.data.frame_cache}" is not read without a frozen '
                    "encoder; the nearest key that is read: data.cache_gigabytes"
                )
        elif self.augment.tract_lengths != (1.0, 1.0):
            raise UserError(
                "augment.tract_lengths is not read with a frozen encoder; the nearest key that is "
                "read: augment.speeds"
            )
