"""The options of decoding, and their defaults; light enough to make a command's help of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.tables import Settings, setting, share

if TYPE_CHECKING:
    from asr.search.options import BeamSettings


@dataclass(frozen=True)
class DecodingOptions(Settings):
    """How speech is decoded; the defaults are those of `asr transcribe`."""

    beam: int = setting(
        24, "Beam size. 1 is greedy search by the decoder alone.", least=1, most=10_000
    )
    recombine: int = setting(
        8,
        "Hypotheses with the same last tokens, this many, are recombined: the best one is kept. "
        "0: all are kept.",
        least=0,
        most=10_000,
    )
    beam_width: float = setting(
        6.0,
        "Hypotheses whose score is further than this below the best one of the same length are "
        "dropped, in nats.",
        above=0,
        most=1e6,
    )
    ctc_weight: float = share(
        0.2, "Weight of CTC in the score. Of no effect for a model without a CTC head."
    )
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
    ilm_weight: float = setting(
        0.3,
        "Weight of the decoder's internal language model, which is subtracted when a language "
        "model is used. 0: no subtraction.",
        least=0,
        most=10,
    )
    fastest: float = setting(
        13.5,
        "Highest speaking rate, in characters per second of speech; faster speech is slowed down "
        "before it is decoded. 0: never.",
        least=0,
        most=100,
    )
    doubt: float = setting(
        -0.6,
        "Confidence threshold for noise, in nats a token: a text with a lower mean log-probability "
        "and fewer characters than speech has is left out. Of no effect without a language model.",
        least=-1e6,
        most=0,
    )
    batch_seconds: float = setting(
        60.0,
        "Seconds of audio decoded at once, padding included. Less needs less memory.",
        above=0,
        most=86_400,
    )
    segment_seconds: float = setting(
        20.0, "Longest segment of a recording, in seconds.", least=1, most=600
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
