"""Corpora: manifests of recordings and their transcripts, sentence pairs, batches."""

from asr.corpora.manifest import Utterance, read_manifest, select, write_manifest
from asr.corpora.manifest_checks import Problem, check_manifest, require_clean

__all__ = [
    "Problem",
    "Utterance",
    "check_manifest",
    "read_manifest",
    "require_clean",
    "select",
    "write_manifest",
]
