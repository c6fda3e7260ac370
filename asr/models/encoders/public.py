"""Samples → frames by the encoder of a public model that stays frozen (Whisper, Moonshine).

The weights are not part of a model folder: they are named, looked up and checked by their hash.
Whisper: Radford et al. 2022, arXiv:2212.04356. Moonshine: Jeffries et al. 2024, arXiv:2410.15608.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asr.audio.cache import ContentCache, Samples
from asr.errors import UserError
from asr.models.encoders.public_weights import checked_weights, known_encoder, not_installed

Frames = NDArray[np.float32]  # (T, size)
Encode = Callable[[Samples], Frames]  # samples (T · 640,) → frames (T, size)

SAMPLES_PER_FRAME = 640  # 40 ms at 16 kHz
SECONDS_PER_FRAME = 0.04
SILENT_FRAMES = 5  # 0.2 s of silence after the last frame, so that a last word is not cut off
LONGEST_PART = 725  # frames, 29 s; Whisper's encoder takes at most 30 s, silence included

MOONSHINE_HOP = 384  # samples from one of its frames to the next: strides of 64, 3 and 2
MOONSHINE_FIELD = 895  # samples that its convolutions see for a frame: widths of 127, 7 and 3


def frame_count(samples: int) -> int:
    """Return the number of frames of a recording: ⌈samples / 640⌉."""
    return -(-samples // SAMPLES_PER_FRAME)


@dataclass(frozen=True)
class PublicEncoder:
    """A frozen encoder: samples (S,) at 16 kHz → frames (T, size), T = ⌈S / 640⌉, every 40 ms.

    name: one of `public_weights.ENCODERS`. size: width of a frame. digest: sha256 of the weights.
    encode: samples (T · 640,) of at most 29.2 s → frames (T, size).
    """

    name: str
    size: int
    digest: str
    encode: Encode
    seconds_per_frame: float = SECONDS_PER_FRAME

    def __call__(self, samples: Samples) -> Frames:
        """Encode samples (S,) → (T, size) float32; no samples give (0, size).

        Silence is appended to fill the last frame, and 0.2 s after it, whose frames are dropped.
        Longer input than 29 s is encoded in parts that are cut on frame boundaries, as equal in
        length as possible and at most 29 s; the 0.2 s after a part are then those of the
        recording. Parts are encoded independently.

        Raises:
            ValueError: samples are not of one dimension.
        """
        if samples.ndim != 1:
            raise ValueError(f"wanted samples (S,), got an array of shape {samples.shape}")
        count = frame_count(len(samples))
        if not count:
            return np.zeros((0, self.size), np.float32)
        padded = np.zeros((count + SILENT_FRAMES) * SAMPLES_PER_FRAME, np.float32)
        padded[: len(samples)] = samples
        parts = -(-count // LONGEST_PART)
        cuts = [count * part // parts for part in range(parts + 1)]
        return np.concatenate([self._part(padded, *bounds) for bounds in pairwise(cuts)])

    def _part(self, padded: Samples, start: int, stop: int) -> Frames:
        """Return frames start … stop − 1 of padded samples, encoded on their own."""
        end = stop + SILENT_FRAMES
        frames = self.encode(padded[start * SAMPLES_PER_FRAME : end * SAMPLES_PER_FRAME])
        return frames[: stop - start]


def load_public(name: str, path: Path | None = None) -> PublicEncoder:
    """Open a public encoder by its name, for one thread, in 8 bits.

    path: a folder with the weights; without it, that of `public_weights.find_weights`.

    Raises:
        UserError: the name is unknown, something is not installed, or the weights are others.
    """
    known = known_encoder(name)
    load = {"whisper": _whisper, "moonshine": _moonshine}[known.family]
    try:
        encode, digest = load(name, path)
    except ImportError as error:
        raise UserError(not_installed(name)) from error
    return PublicEncoder(name, known.size, digest, encode)


def _whisper(name: str, path: Path | None) -> tuple[Encode, str]:
    """Load an encoder of Whisper; two of its frames, of 20 ms, are averaged to one."""
    import ctranslate2
    from faster_whisper.feature_extractor import FeatureExtractor

    folder, digest = checked_weights(name, path)
    mel = FeatureExtractor()  # samples (n · 160,) → log-mel features (80, n)

    def encode(samples: Samples) -> Frames:
        batch = np.ascontiguousarray(mel(samples, padding=0)[None], np.float32)  # (1, 80, n)
        encoded: Any = model.encode(ctranslate2.StorageView.from_array(batch), to_cpu=True)
        halves = np.array(encoded, np.float32)[0]  # (n / 2, size)
        frames: Frames = halves.reshape(len(halves) // 2, 2, -1).mean(1, dtype=np.float32)
        return frames

    with _few_primitives():
        model = ctranslate2.models.Whisper(
            str(folder), device="cpu", compute_type="int8", intra_threads=1, inter_threads=1
        )
        encode(np.zeros(SAMPLES_PER_FRAME, np.float32))
    return encode, digest


@contextmanager
def _few_primitives() -> Iterator[None]:
    """Let oneDNN, which reads this variable at its first call, keep few compiled operators.

    It keeps 1,024 otherwise, and compiles some for each length of a recording: memory grew by 2 MB
    with each. Other libraries with a oneDNN of their own, such as torch, are not affected.
    """
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    if name in os.environ:
        yield
        return
    os.environ[name] = "8"
    try:
        yield
    finally:
        del os.environ[name]


def _moonshine(name: str, path: Path | None) -> tuple[Encode, str]:
    """Load an encoder of Moonshine; its frames, of 24 ms, are interpolated (`_resampled`)."""
    import onnxruntime

    folder, digest = checked_weights(name, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it keeps memory for each length of a recording
    model = onnxruntime.InferenceSession(
        str(folder / known_encoder(name).weights), options, ["CPUExecutionProvider"]
    )

    def encode(samples: Samples) -> Frames:
        mask = np.ones((1, len(samples)), np.int64)
        inputs = {"input_values": samples[None], "attention_mask": mask}
        encoded = model.run(None, inputs)[0][0]
        return _resampled(encoded, len(samples) // SAMPLES_PER_FRAME)

    return encode, digest


def _resampled(encoded: Frames, count: int) -> Frames:
    """Return Moonshine's frames (M, size), M ≥ 2, as (count, 2 · size): every 40 ms.

    The halves of a frame are interpolated linearly, at 10 and 30 ms, between the two frames whose
    middles are the nearest; before the first and after the last middle they equal its frame.
    """
    step = SAMPLES_PER_FRAME // 2
    middles = np.arange(2 * count) * step + (step - MOONSHINE_FIELD) / 2
    places = np.clip(middles / MOONSHINE_HOP, 0, len(encoded) - 1)
    before = np.minimum(places.astype(int), len(encoded) - 2)
    shares = (places - before)[:, None].astype(np.float32)
    halves = encoded[before] * (1 - shares) + encoded[before + 1] * shares
    frames: Frames = halves.reshape(count, -1)
    return frames


def open_frames(name: str, cache: Path | None = None) -> ContentCache:
    """Load an encoder; cache: a folder in which its frames are kept on disk, None keeps none.

    Raises:
        UserError: as `load_public`.
    """
    return frame_cache(cache, load_public(name))


def frame_cache(folder: Path | None, encoder: PublicEncoder) -> ContentCache:
    """Return the cache of an encoder's frames, kept in `<name>-<digest>` below a folder."""
    place = folder and folder / f"{encoder.name}-{encoder.digest[:12]}"
    return ContentCache(place, encoder, encoder.size, frame_count)
