"""Corpora: manifests of recordings and their transcripts, sentence pairs, batches."""

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
