"""The arguments of `asr prepare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from asr.commands.options import add_audio_in, add_command, share


def add_prepare(commands: Any) -> None:
    """Add the command and its kinds of corpora."""
    parser = add_command(
        commands,
        "prepare",
        "make and check manifests",
        "Make the manifests that asr train and asr evaluate read.",
        """  asr prepare librispeech corpora --subset dev-clean --download
  asr prepare folder my_recordings my.jsonl --dev dev.jsonl
  asr prepare commonvoice cv-corpus/en my.jsonl --dev dev.jsonl
  asr prepare pseudo-labels all.jsonl corpora/mine
  asr prepare check my.jsonl""",
    )
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    _add_librispeech(kinds)

    folder = add_command(
        kinds,
        "folder",
        "manifest of recordings with a .txt file next to each",
        "Write the manifest of a folder; the text of day/one.wav is in day/one.txt.",
        "  asr prepare folder my_recordings my.jsonl",
    )
    folder.add_argument("audio", type=Path, metavar="DIR", help="Folder, searched recursively.")
    _add_written(folder, "prepare_folder")
    _add_imports(kinds)
    _add_shards(kinds)

    labels = add_command(
        kinds,
        "pseudo-labels",
        "training data from untranscribed recordings (self-training)",
        """From the output of `asr transcribe RECORDINGS -o FILE.jsonl`, keep the transcripts
with the highest confidence and their audio: a corpus for `asr train`.
Their text is not checked.""",
        "  asr prepare pseudo-labels all.jsonl corpora/mine --keep 0.5",
    )
    labels.add_argument("transcripts", type=Path, metavar="TRANSCRIPTS", help="JSON lines.")
    labels.add_argument(
        "folder", type=Path, metavar="DIR", help="Folder to write: FLAC files and manifest.jsonl."
    )
    labels.add_argument(
        "--keep",
        type=share,
        default=0.5,
        metavar="SHARE",
        help="Share of the transcripts to keep (default: %(default)s).",
    )
    labels.set_defaults(command="prepare_pseudo_labels")

    check = add_command(
        kinds,
        "check",
        "check manifests and their audio",
        """Print the problems of manifests, one a line; the exit status is 2 if there are any.
Without any, warn of what is often a mistake: empty texts, texts much too short for their audio,
characters that are dropped, utterances too long to train on, and recordings that occur twice, in
one manifest or in two.""",
        "  asr prepare check train.jsonl dev.jsonl",
    )
    check.add_argument("manifest", type=Path, nargs="+", metavar="MANIFEST", help="JSON lines.")
    add_audio_in(check)
    check.set_defaults(command="prepare_check")


def _add_librispeech(kinds: Any) -> None:
    parser = add_command(
        kinds,
        "librispeech",
        "manifests of LibriSpeech or mini LibriSpeech",
        "Write OUTPUT/SUBSET.jsonl for each subset of LibriSpeech.",
        "  asr prepare librispeech corpora --subset dev-clean --download",
    )
    parser.add_argument(
        "root", type=Path, metavar="ROOT", help="The folder that contains LibriSpeech."
    )
    parser.add_argument(
        "output",
        type=Path,
        nargs="?",
        metavar="OUTPUT",
        help="Folder of the manifests (default: ROOT).",
    )
    parser.add_argument(
        "--subset",
        dest="subsets",
        action="append",
        metavar="NAME",
        help="Subset such as dev-clean, may be repeated (default: all in ROOT).",
    )
    parser.add_argument("--download", action="store_true", help="Download missing subsets.")
    parser.set_defaults(command="prepare_librispeech")


def _add_shards(kinds: Any) -> None:
    shards = add_command(
        kinds,
        "shards",
        "copy the recordings of a manifest into large files",
        """Copy the recordings of a manifest into tar archives in the layout of WebDataset, and
write DIR/manifest.jsonl, which asr train and asr evaluate read like any other. For network drives
and object stores, which read a few large files faster than many small ones.""",
        "  asr prepare shards my.jsonl /mnt/store/mine --megabytes 500",
    )
    shards.add_argument("manifest", type=Path, metavar="MANIFEST", help="JSON lines.")
    shards.add_argument("folder", type=Path, metavar="DIR", help="Folder to write.")
    shards.add_argument(
        "--megabytes",
        type=float,
        default=1000.0,
        metavar="MB",
        help="Size from which on a shard is complete (default: %(default)g).",
    )
    add_audio_in(shards)
    shards.set_defaults(command="prepare_shards")


def _add_imports(kinds: Any) -> None:
    """Add the lists of other tools."""
    table = add_command(
        kinds,
        "table",
        "manifest of a CSV or TSV table",
        """Write the manifest of a table with a header. Columns: audio (or path, file, wav), text
(or sentence, transcript), and if there are any id, speaker, gender, accent.""",
        "  asr prepare table my.csv my.jsonl --audio recordings --dev dev.jsonl",
    )
    table.add_argument("table", type=Path, metavar="TABLE", help="File with , ; | or tabs.")
    table.add_argument(
        "--audio",
        type=Path,
        metavar="DIR",
        help="Folder that the audio is relative to (default: that of the table).",
    )
    _add_written(table, "prepare_table")

    voice = add_command(
        kinds,
        "commonvoice",
        "manifest of a release of Common Voice",
        "Write the manifest of a release of Common Voice, the folder with clips/ and .tsv files.",
        "  asr prepare commonvoice cv-corpus/en my.jsonl --table train.tsv --dev dev.jsonl",
    )
    voice.add_argument("release", type=Path, metavar="DIR", help="Folder of a language.")
    voice.add_argument(
        "--table",
        default="validated.tsv",
        metavar="NAME",
        help="Table of the release (default: %(default)s).",
    )
    _add_written(voice, "prepare_commonvoice")
    for name, summary, description, source in (
        (
            "ljspeech",
            "manifest of a corpus in the layout of LJSpeech",
            "Write the manifest of a folder with metadata.csv (id|text|spoken) and wavs/.",
            "Folder of the corpus.",
        ),
        (
            "kaldi",
            "manifest of a data folder of Kaldi",
            "Write the manifest of a folder with text, wav.scp, and if there are any segments,\n"
            "utt2spk and spk2gender. Segments are written as FLAC files next to the manifest.",
            "Data folder.",
        ),
        (
            "nemo",
            "manifest of a manifest of NeMo",
            "Write the manifest of JSON lines with audio_filepath and text. Lines with an offset\n"
            "are written as FLAC files next to the manifest.",
            "JSON lines.",
        ),
        (
            "lhotse",
            "manifest of cuts of lhotse",
            "Write the manifest of the supervisions of cuts (.jsonl or .jsonl.gz). Those that are\n"
            "parts of recordings are written as FLAC files next to the manifest. Needs the extra\n"
            "lhotse.",
            "Cuts.",
        ),
        (
            "webdataset",
            "manifest of shards in the layout of WebDataset",
            "Write the manifest of a folder of .tar files with key.flac (or another format) and\n"
            "the text in key.txt or key.json. The recordings stay in the shards.",
            "Folder of the shards.",
        ),
    ):
        parser = add_command(
            kinds, name, summary, description, f"  asr prepare {name} SOURCE my.jsonl"
        )
        parser.add_argument("source", type=Path, metavar="SOURCE", help=source)
        _add_written(parser, f"prepare_{name}")


def _add_written(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the manifests that are written."""
    parser.add_argument("manifest", type=Path, metavar="MANIFEST", help="File to write.")
    parser.add_argument(
        "--dev",
        type=Path,
        metavar="FILE",
        help="Also split off a dev set into this manifest, by speakers where they are known.",
    )
    parser.add_argument(
        "--dev-share",
        type=share,
        default=0.1,
        metavar="SHARE",
        help="Share of the seconds of audio in the dev set (default: %(default)s).",
    )
    parser.set_defaults(command=command)
