"""Text to count language models in and to make speech of: lines, normalised."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from asr.corpora.manifest import read_manifest
from asr.errors import UserError
from asr.text.normalize import normalize

_OPENERS: dict[str, Callable[..., TextIO]] = {".gz": gzip.open, ".xz": lzma.open}


def read_lines(path: Path) -> list[str]:
    """Return the normalised lines of a text file, the last of their columns; empty ones go.

    A name that ends in .gz or .xz is unpacked.

    Raises:
        UserError: the file cannot be read or is not UTF-8 text.
    """
    opener = _OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            lines = [normalize(line.rstrip("\n").split("\t")[-1]) for line in file]
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text: {error}") from error
    return [line for line in lines if line]


def read_texts(path: Path) -> list[str]:
    """Return the lines of a text file, or the transcripts of a manifest (.jsonl).

    Raises:
        UserError: as `read_lines`, or the manifest cannot be read.
    """
    if path.suffix == ".jsonl":
        return [utterance.text for utterance in read_manifest(path)]
    return read_lines(path)
