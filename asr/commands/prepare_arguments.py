"""The arguments of `asr prepare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asr.commands.options import add_command, share


def add_prepare(commands: Any) -> None:
    """Add the command and its kinds of corpora."""
    parser = add_command(
        commands,
        "prepare",
        "make and check manifests",
        "Make the manifests that asr train and asr evaluate read.",
        """  asr prepare librispeech corpora manifests --subset dev-clean --download
  asr prepare folder my_recordings my.jsonl
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
    folder.add_argument("manifest", type=Path, metavar="MANIFEST", help="File to write.")
    folder.set_defaults(command="prepare_folder")

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
        "check a manifest and its audio",
        "Print the problems of a manifest, one a line; the exit status is 2 if there are any.",
        "  asr prepare check my.jsonl",
    )
    check.add_argument("manifest", type=Path, metavar="MANIFEST", help="JSON lines.")
    check.set_defaults(command="prepare_check")


def _add_librispeech(kinds: Any) -> None:
    parser = add_command(
        kinds,
        "librispeech",
        "manifests of LibriSpeech or mini LibriSpeech",
        "Write OUTPUT/SUBSET.jsonl for each subset of LibriSpeech.",
        "  asr prepare librispeech corpora manifests --subset dev-clean --download",
    )
    parser.add_argument(
        "root", type=Path, metavar="ROOT", help="The folder that contains LibriSpeech."
    )
    parser.add_argument("output", type=Path, metavar="OUTPUT", help="Folder of the manifests.")
    parser.add_argument(
        "--subset",
        dest="subsets",
        action="append",
        metavar="NAME",
        help="Subset such as dev-clean, may be repeated (default: all in ROOT).",
    )
    parser.add_argument("--download", action="store_true", help="Download missing subsets.")
    parser.set_defaults(command="prepare_librispeech")
