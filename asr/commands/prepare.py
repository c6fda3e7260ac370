"""`asr prepare`: make and check manifests of LibriSpeech and of other recordings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from asr.corpora import check_manifest, folder, librispeech, pseudo_labels, read_manifest
from asr.text.vocabulary import Vocabulary

SHOWN = 5  # most recordings without a text to list


def run_librispeech(root: Path, output: Path, subsets: Sequence[str] | None, download: bool) -> int:
    """Write a manifest of each subset and print their paths; return 0.

    Raises:
        UserError: see `asr.corpora.librispeech.prepare`.
    """
    for manifest in librispeech.prepare(root, output, subsets, download):
        print(_described(manifest))
    return 0


def run_folder(audio: Path, manifest: Path) -> int:
    """Write the manifest of a folder of recordings and texts and print its path; return 0.

    Raises:
        UserError: see `asr.corpora.folder.prepare`.
    """
    without_text = folder.prepare(audio, manifest)
    print(_described(manifest))
    if without_text:
        named = ", ".join(map(str, without_text[:SHOWN]))
        more = ", …" if len(without_text) > SHOWN else ""
        print(
            f"asr: left out {len(without_text)} recordings without a .txt file: {named}{more}",
            file=sys.stderr,
        )
    return 0


def run_pseudo_labels(transcripts: Path, output: Path, keep: float) -> int:
    """Write the most confident transcripts as a corpus and print its manifest path; return 0.

    Raises:
        UserError: see `asr.corpora.pseudo_labels.prepare`.
    """
    print(_described(pseudo_labels.prepare(transcripts, output, keep)))
    return 0


def run_check(manifest: Path) -> int:
    """Print the problems of a manifest, one a line; return 0 if there are none, else 2.

    Raises:
        UserError: the manifest cannot be read at all.
    """
    problems = check_manifest(manifest, Vocabulary.characters().inventory)
    for problem in problems:
        print(f"{manifest}:{problem.line}: {problem.what}")
    if not problems:
        print(_described(manifest))
    return 2 if problems else 0


def _described(manifest: Path) -> str:
    utterances = read_manifest(manifest)
    hours = sum(utterance.duration for utterance in utterances) / 3600
    return f"{manifest}: {len(utterances)} utterances, {hours:.2f} h"
