"""Corpora as manifests: what was recorded, what is said in it, and how to make such lists."""

from asr.corpora.manifest import (
    Problem,
    Utterance,
    check_manifest,
    read_manifest,
    require_clean,
    select,
    write_manifest,
)

__all__ = [
    "Problem",
    "Utterance",
    "check_manifest",
    "read_manifest",
    "require_clean",
    "select",
    "write_manifest",
]
