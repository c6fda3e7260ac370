"""Text for language models and speech synthesis: normalised lines."""

from __future__ import annotations

from pathlib import Path

from asr.corpora.manifest import ANYWHERE, read_manifest
from asr.text.lines import read_lines
from asr.text.normalize import normalize


def read_texts(path: Path) -> list[str]:
    """Return the normalised lines of a text file, or the transcripts of a manifest (.jsonl).

    From tab-separated columns the last one is used. Lines of a text file that are empty after
    normalisation are left out.

    Raises:
        UserError: the file cannot be read; see `asr.text.lines.read_lines`, `read_manifest`.
    """
    if path.suffix == ".jsonl":
        return [utterance.text for utterance in read_manifest(path, ANYWHERE)]
    columns = (line.text.rpartition("\t")[2] for line in read_lines(path))
    return [text for text in map(normalize, columns) if text]
