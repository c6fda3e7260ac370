"""The arguments of the commands for model folders: `asr check`, `export` and `shrink`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from asr.commands.options import add_command


def add_check(commands: Any) -> None:
    """Add `asr check`."""
    parser = add_command(
        commands,
        "check",
        "verify the files of a model or a run",
        """Print each file of a model folder or a run folder with its format and whether its
checksum holds, and load the models. The exit status is 2 if a file is damaged.""",
        """  asr check english
  asr check runs/one
  asr check runs/one/model --renew""",
    )
    parser.add_argument(
        "path", type=Path, metavar="MODEL|RUN", help="Folder, or the name of a packaged model."
    )
    renew = "Write the checksums anew, after a file was changed on purpose."
    parser.add_argument("--renew", action="store_true", help=renew)
    parser.set_defaults(command="check")


def add_export(commands: Any) -> None:
    """Add `asr export`."""
    parser = add_command(
        commands,
        "export",
        "write a model as ONNX graphs",
        """Copy a model to a new folder, together with ONNX graphs of its encoder, its decoder step,
and, of a recogniser, its features and its language model. The graphs are compared with the model,
and the largest difference of each is printed. `-m FOLDER` then computes with onnxruntime; other
programs can run the graphs too (see docs/export.md).""",
        """  asr export english english-onnx
  asr export runs/one/model small --int8
  asr transcribe talk.flac -m small
  asr export english-german english-german-onnx""",
    )
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="Folder, or the name of a packaged model."
    )
    parser.add_argument("folder", type=Path, metavar="OUT", help="Folder to write; a new one.")
    parser.add_argument(
        "--int8",
        action="store_true",
        help="The LSTMs of a recogniser's encoder compute in 8 bits: smaller, faster, less exact.",
    )
    parser.set_defaults(command="export")


def add_shrink(commands: Any) -> None:
    """Add `asr shrink`."""
    parser = add_command(
        commands,
        "shrink",
        "make a smaller copy of a speech model",
        """Copy a speech model with weights of 8 bits, or of 4 or 3 if more need more than SIZE. If
3 bits do not suffice, the least important units of the encoder's LSTMs and of the decoder are
removed as well; the copy then needs training (see docs/small-models.md).""",
        """  asr shrink english smaller --to 15MB
  asr shrink english start --to 5MB
  asr train --from start mine.jsonl runs/small""",
    )
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="Folder, or the name of a packaged model."
    )
    parser.add_argument("folder", type=Path, metavar="OUT", help="Folder to write; a new one.")
    parser.add_argument(
        "--to",
        type=_size,
        required=True,
        metavar="SIZE",
        help="Largest size of the weights, such as 5MB or 800kB.",
    )
    parser.add_argument(
        "--bits",
        type=int,
        choices=[8, 4, 3],
        help="Bits of a weight (default: the most that suffice).",
    )
    parser.set_defaults(command="shrink")


def _size(text: str) -> float:
    """Return the bytes of a size such as 5MB, 5 MB or 800kB."""
    units = {"kb": 1e3, "mb": 1e6, "gb": 1e9}
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB)", text.strip(), re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 5MB")
    return float(found[1]) * units[found[2].lower()]
