"""An engine that keeps the encoder's output of audio it was given lately, for repeated audio."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asr.models.settings import AttentionSettings
from asr.runtime.engine import EncodedAudio, Engine, PaddedAudio
from asr.search.contract import SearchDecoder


class CachingEngine:
    """Another engine, and the encoded batches of the last `seconds` of audio, padding included.

    A batch is found by a hash of its content. It may be used by several threads.
    """

    def __init__(self, engine: Engine, seconds: float, rate: int) -> None:
        """Cache the output of an engine; rate: samples per second of the audio."""
        self.engine = engine
        self.hits = 0
        self._seconds = seconds
        self._rate = rate
        self._kept: OrderedDict[bytes, tuple[float, EncodedAudio]] = OrderedDict()
        self._total = 0.0  # seconds kept
        self._lock = threading.Lock()

    @property
    def seconds_per_annotation(self) -> float:
        """See `Engine.seconds_per_annotation`."""
        return self.engine.seconds_per_annotation

    @property
    def has_ctc(self) -> bool:
        """See `Engine.has_ctc`."""
        return self.engine.has_ctc

    def encode(self, audio: PaddedAudio) -> EncodedAudio:
        """Return the kept output of the same batch, or encode it."""
        key = _digest(audio)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                self.hits += 1
                return self._kept[key][1]
        encoded = self.engine.encode(audio)
        with self._lock:
            self._keep(key, audio.samples.size / self._rate, encoded)
        return encoded

    def put(self, memory: Any, rows: NDArray[np.int64], other: Any) -> Any:
        """See `Engine.put`."""
        return self.engine.put(memory, rows, other)

    def decoder(self, memory: Any) -> SearchDecoder[Any]:
        """See `Engine.decoder`."""
        return self.engine.decoder(memory)

    def decoder_without_audio(self, memory: Any) -> SearchDecoder[Any]:
        """See `Engine.decoder_without_audio`."""
        return self.engine.decoder_without_audio(memory)

    def force(
        self, memory: Any, tokens: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `Engine.force`."""
        return self.engine.force(memory, tokens)

    def windowed(self, attention: AttentionSettings) -> CachingEngine:
        """See `Engine.windowed`; with a cache of its own."""
        return CachingEngine(self.engine.windowed(attention), self._seconds, self._rate)

    def _keep(self, key: bytes, seconds: float, encoded: EncodedAudio) -> None:
        if seconds > self._seconds or key in self._kept:
            return
        self._kept[key] = (seconds, encoded)
        self._total += seconds
        while self._total > self._seconds:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._total -= oldest


def _digest(audio: PaddedAudio) -> bytes:
    digest = blake2b(digest_size=32)
    for array in audio:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
