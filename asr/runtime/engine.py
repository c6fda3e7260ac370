"""What inference needs of a model, whatever computes it.

Letters: B recordings, T annotations of each, U tokens, V symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from asr.models.settings import AttentionSettings
from asr.search.contract import SearchDecoder


class PaddedAudio(NamedTuple):
    """A padded batch of recordings at 16 kHz.

    samples: (B, S) float32, 0 beyond each of lengths (B,). speech: (B, F) bool, the 10 ms frames
    with speech.
    """

    samples: NDArray[np.float32]
    lengths: NDArray[np.int64]
    speech: NDArray[np.bool_]


class EncodedAudio(NamedTuple):
    """A batch of encoded recordings.

    memory: what the decoder attends to; only the engine reads it. lengths: (B,) annotations.
    ctc: (B, T', V) log-probabilities or None; ctc_lengths: (B,) frames of them. features: of each
    recording, (F, size), normalised.
    """

    memory: Any
    lengths: NDArray[np.int64]
    ctc: NDArray[np.float32] | None
    ctc_lengths: NDArray[np.int64]
    features: Sequence[NDArray[np.float32]]


class EncodedTexts(NamedTuple):
    """A batch of encoded sentences: memory, which only the engine reads; lengths (B,)."""

    memory: Any
    lengths: NDArray[np.int64]


class TextEngine(Protocol):
    """A translation model for inference. The result of a sentence does not depend on its batch."""

    def encode(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> EncodedTexts:
        """Encode source tokens (B, T) of lengths (B,)."""

    def decoder(self, memory: Any) -> SearchDecoder[Any]:
        """Return the decoder, bound to the memory of a batch."""


class Engine(Protocol):
    """A speech model for inference. The result of a recording does not depend on its batch."""

    @property
    def seconds_per_annotation(self) -> float:
        """Seconds of audio for each annotation."""

    @property
    def has_ctc(self) -> bool:
        """Whether the model has a CTC head."""

    def features(self, audio: PaddedAudio) -> Sequence[NDArray[np.float32]]:
        """Return the normalised features (F, size) of each recording."""

    def encode(
        self, audio: PaddedAudio, features: Sequence[NDArray[np.float32]] | None = None
    ) -> EncodedAudio:
        """Encode a batch; features: those of `features`, if they are known."""

    def put(self, memory: Any, rows: NDArray[np.int64], other: Any) -> Any:
        """Return a memory in which the recordings rows (b,) are those of another memory."""

    def decoder(self, memory: Any) -> SearchDecoder[Any]:
        """Return the decoder, bound to the memory of a batch."""

    def decoder_without_audio(self, memory: Any) -> SearchDecoder[Any]:
        """Return the decoder with the mean annotation of each recording as its only one."""

    def force(
        self, memory: Any, tokens: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Read a known text of U tokens with the memory of one recording (teacher forcing).

        Returns attention weights (U + 1, T) and log-probabilities (U + 1,), end-of-sentence last.
        """

    def windowed(self, attention: AttentionSettings) -> Self:
        """Return an engine with the same weights and the window of other settings.

        Raises:
            ValueError: the window extends to one side only, or the attention takes none.
        """
