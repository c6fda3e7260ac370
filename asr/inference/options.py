"""The options of decoding and their defaults; imported by the help of the commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.tables import Settings, setting, share

if TYPE_CHECKING:
    from asr.search.options import BeamSettings


@dataclass(frozen=True)
class DecodingOptions(Settings):
    """Options for decoding speech; the defaults are those of `asr transcribe`."""

    beam: int = setting(
        48, "Beam size. 1 is greedy search by the decoder alone.", least=1, most=10_000
    )
    recombine: int = setting(
        8,
        "Hypotheses with the same last N tokens are recombined: only the best one is kept. "
        "0: no recombination.",
        least=0,
        most=10_000,
    )
    beam_width: float = setting(
        6.0,
        "Hypotheses whose score is lower than the best one of the same length by more than this "
        "are pruned, in nats.",
        above=0,
        most=1e6,
    )
    ctc_weight: float = share(0.2, "Weight of CTC in the score. No effect without a CTC head.")
    lm_weight: float = setting(
        0.75,
        "Weight of the language model in the score. 0: no language model.",
        least=0,
        most=10,
    )
    lm_bonus: float = setting(
        0.1,
        "Score added for each character when a language model is used, in nats.",
        least=-10,
        most=10,
    )
    word_penalty: float = setting(
        0.0,
        "Score subtracted for each word when a language model is used, in nats. Higher values give "
        "fewer and longer words.",
        least=0,
        most=100,
    )
    ilm_weight: float = setting(
        0.3,
        "Weight of the decoder's internal language model, which is subtracted when a language "
        "model is used. 0: no subtraction.",
        least=0,
        most=10,
    )
    hotword_weight: float = setting(
        1.5,
        "Score added for each character of a favoured word (hotwords), in nats. No effect without "
        "such words.",
        least=0,
        most=20,
    )
    n_best: int = setting(
        1,
        "Hypotheses of each segment in text and JSON. More than 1 takes twice the time.",
        least=1,
        most=1000,
    )
    fastest: float = setting(
        13.5,
        "Highest speaking rate, in characters per second of speech; faster speech is slowed down "
        "before decoding. 0: never.",
        least=0,
        most=100,
    )
    noise_threshold: float = setting(
        -0.6,
        "Confidence threshold for noise, in nats per token: a segment whose mean log-probability "
        "is lower and whose speaking rate is too low for speech gets no text. No effect without a "
        "language model.",
        least=-1e6,
        most=0,
    )
    batch_seconds: float = setting(
        60.0,
        "Seconds of audio decoded at once, padding included. Lower values need less memory.",
        above=0,
        most=86_400,
    )
    segment_seconds: float = setting(
        20.0, "Longest segment of a recording, in seconds.", least=1, most=600
    )
    longest: float = setting(
        24.0, "Longest recording that is read, in hours; others are refused.", above=0, most=1000
    )

    @property
    def search(self) -> BeamSettings:
        """The options of the beam search."""
        from asr.search.options import BeamSettings

        return BeamSettings(size=self.beam, recombine=self.recombine, width=self.beam_width)


@dataclass(frozen=True)
class TranslationOptions(Settings):
    """How text is translated; the defaults are those of `asr translate`."""

    beam: int = setting(4, "Beam size. 1 is greedy search.", least=1, most=10_000)
    length_penalty: float = setting(
        1.0,
        "Exponent of the length by which a hypothesis's log-probability is divided. 0: the sum is "
        "compared, 1: the mean per token.",
        least=0,
        most=1,
    )

    @property
    def search(self) -> BeamSettings:
        """The options of the beam search."""
        from asr.search.options import BeamSettings

        return BeamSettings(size=self.beam, length_exponent=self.length_penalty, end_threshold=None)
