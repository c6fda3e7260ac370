"""Text for language models: normalised lines, or the transcripts of a manifest."""

import gzip
from pathlib import Path

from asr.corpora.manifest import read_manifest
from asr.corpora.text import read_texts

MANIFEST = Path(__file__).parents[2] / "data" / "speech" / "manifest.jsonl"


def test_lines_are_normalised_and_the_last_column_counts(tmp_path):
    text = "Hello, World!\n\nid-1\twritten\tDon't\r\n***\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.txt", "a.gz"):
        assert read_texts(tmp_path / name) == ["hello world", "don't"]


def test_a_manifest_gives_its_transcripts():
    assert read_texts(MANIFEST) == [each.text for each in read_manifest(MANIFEST)]
