"""`asr prepare`: make and check manifests of LibriSpeech and of other recordings."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from asr.commands.output import require_no_input
from asr.corpora import (
    Utterance,
    check_manifest,
    folder,
    librispeech,
    pseudo_labels,
    read_manifest,
)
from asr.corpora.entries import Entry, write_entries
from asr.corpora.held_out import split_off
from asr.corpora.left_out import LeftOut, described
from asr.corpora.manifest import ANYWHERE, is_inside
from asr.corpora.remarks import remarks, shared_recordings
from asr.errors import warn
from asr.render.durations import duration_text
from asr.text.vocabulary import Vocabulary


def run_librispeech(
    root: Path, output: Path | None, subsets: Sequence[str] | None, download: bool
) -> int:
    """Write a manifest of each subset into output, or root, and print their paths; return 0.

    Raises:
        UserError: see `asr.corpora.librispeech.prepare`.
    """
    for manifest in librispeech.prepare(root, output or root, subsets, download):
        _print(manifest)
    return 0


def run_folder(audio: Path, manifest: Path, dev: Path | None, share: float) -> int:
    """Write the manifest of a folder of recordings and texts and print its path; return 0.

    dev: manifest of a dev set, which gets a share of the seconds; None splits nothing off.

    Raises:
        UserError: see `asr.corpora.folder.prepare` and `asr.corpora.held_out.split_off`.
    """
    _report(manifest, dev, share, folder.prepare(audio, manifest))
    return 0


def run_table(
    table: Path, audio: Path | None, manifest: Path, dev: Path | None, share: float
) -> int:
    """Write the manifest of a CSV or TSV table; otherwise as `run_folder`."""
    from asr.corpora.tables import read_table

    advice = "; --audio DIR names the folder that the recordings are relative to"
    return _write(read_table(table, audio), table, manifest, dev, share, advice)


def run_common_voice(
    release: Path, table: str, manifest: Path, dev: Path | None, share: float
) -> int:
    """Write the manifest of a table of Common Voice; otherwise as `run_folder`."""
    from asr.corpora.tables import read_common_voice

    return _write(read_common_voice(release, table), release / table, manifest, dev, share)


def run_ljspeech(corpus: Path, manifest: Path, dev: Path | None, share: float) -> int:
    """Write the manifest of a corpus in the layout of LJSpeech; otherwise as `run_folder`."""
    from asr.corpora.tables import read_ljspeech

    return _write(read_ljspeech(corpus), corpus, manifest, dev, share)


def run_kaldi(corpus: Path, manifest: Path, dev: Path | None, share: float) -> int:
    """Write the manifest of a data folder of Kaldi; otherwise as `run_folder`."""
    from asr.corpora.kaldi import read_kaldi

    return _write(read_kaldi(corpus), corpus, manifest, dev, share)


def run_nemo(lines: Path, manifest: Path, dev: Path | None, share: float) -> int:
    """Write the manifest of a manifest of NeMo; otherwise as `run_folder`."""
    from asr.corpora.nemo import read_nemo

    return _write(read_nemo(lines), lines, manifest, dev, share)


def run_lhotse(cuts: Path, manifest: Path, dev: Path | None, share: float) -> int:
    """Write the manifest of cuts of lhotse; otherwise as `run_folder`."""
    from asr.corpora.lhotse import read_lhotse

    return _write(read_lhotse(cuts), cuts, manifest, dev, share)


def run_webdataset(shards: Path, manifest: Path, dev: Path | None, share: float) -> int:
    """Write the manifest of shards in the layout of WebDataset; otherwise as `run_folder`."""
    from asr.corpora.shards import read_webdataset

    return _write(read_webdataset(shards), shards, manifest, dev, share)


def _write(
    entries: Sequence[Entry],
    source: Path,
    manifest: Path,
    dev: Path | None,
    share: float,
    advice: str = "",
) -> int:
    require_no_input([manifest] if dev is None else [manifest, dev], [source])
    _report(manifest, dev, share, write_entries(manifest, entries, source, advice))
    return 0


def _report(manifest: Path, dev: Path | None, share: float, left_out: Sequence[LeftOut]) -> None:
    """Split the dev set off, print what the manifests hold, and name what they lack."""
    if dev is not None:
        parts = split_off(manifest, dev, share)
        _print(manifest)
        _print(dev, f"; {parts.how}")
        if warning := shared_recordings(parts.train, parts.dev):
            warn(warning)
    else:
        _print(manifest)
    for line in described(left_out):
        print(f"asr: {line}", file=sys.stderr)


def run_pseudo_labels(transcripts: Path, output: Path, keep: float) -> int:
    """Write the most confident transcripts as a corpus and print its manifest path; return 0.

    Raises:
        UserError: see `asr.corpora.pseudo_labels.prepare`.
    """
    _print(pseudo_labels.prepare(transcripts, output, keep))
    return 0


def run_shards(manifest: Path, output: Path, megabytes: float, audio_in: Path | None) -> int:
    """Copy the recordings of a manifest into shards and print the manifest of these; return 0.

    audio_in: folder of the recordings, see `asr.corpora.read_manifest`.

    Raises:
        UserError: see `asr.corpora.shards.write_shards`.
    """
    from asr.corpora.shards import write_shards

    _print(write_shards(manifest, output, megabytes, audio_in))
    return 0


def run_check(manifests: Sequence[Path], audio_in: Path | None) -> int:
    """Print the problems of manifests, one a line; return 0 if there are none, else 2.

    What is allowed, but often a mistake, is a warning on stderr: in one of them, or in all together
    where a recording occurs twice. audio_in: see `asr.corpora.read_manifest`.

    Raises:
        UserError: a manifest cannot be read at all.
    """
    status = 0
    for manifest in manifests:
        problems = check_manifest(manifest, Vocabulary.characters().inventory, audio_in=audio_in)
        for problem in problems:
            print(f"{manifest}:{problem.line}: {problem.what}")
        if problems:
            status = 2
        else:
            print(_described(manifest, read_manifest(manifest, audio_in)))
    if status == 0:
        found = [each for manifest in manifests for each in read_manifest(manifest, audio_in)]
        for remark in remarks(found):
            warn(remark)
    return status


def _print(manifest: Path, more: str = "") -> None:
    """Print what a manifest that was just written holds; name the folder of its audio if needed."""
    utterances = read_manifest(manifest, ANYWHERE)
    print(f"{_described(manifest, utterances)}{more}")
    if folder := _folder_outside(manifest.parent, utterances):
        warn(
            f"{manifest}: audio outside of its folder; commands that read it want "
            f"--audio-in {folder}"
        )


def _described(manifest: Path, utterances: Sequence[Utterance]) -> str:
    duration = sum(utterance.duration for utterance in utterances)
    return f"{manifest}: {len(utterances)} utterances, {duration_text(duration)}"


def _folder_outside(folder: Path, utterances: Sequence[Utterance]) -> str:
    """Return the folder that holds all audio, if not all lies in the given one; else ""."""
    if all(is_inside(each.audio, folder) for each in utterances):
        return ""
    return os.path.commonpath([os.path.abspath(each.audio.parent) for each in utterances])
