"""Folders → the recordings in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from asr.audio.read import AUDIO_ENDINGS
from asr.errors import UserError


def find_audio(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Replace folders by their audio files, at any depth, sorted.

    Audio files are recognised by their endings; hidden files are skipped. Other paths, existing or
    not, and "-" (standard input) are kept.

    Raises:
        UserError: a folder holds no audio file.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*")) if _is_audio_name(file, path)]
        if not inside:
            raise UserError(f"{path}: no audio file in this folder (.wav, .flac, .opus, .mp3, …)")
        found += inside
    return found


def _is_audio_name(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in AUDIO_ENDINGS and not hidden and file.is_file()
