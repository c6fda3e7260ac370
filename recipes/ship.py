"""Copy a trained model with quantised weights, and check its size.

    python recipes/ship.py runs/continued/model asr/pretrained/english
    python recipes/ship.py runs/continued/model english-int8 --bits 8

16 bits halve the size and do not change transcripts; 8 bits halve it again (one scale per row).
Language models of the source are copied unchanged; without any, those of the target are kept. The
model card (README.md) is written by hand, with figures measured on the copy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.errors import UserError, exit_status
from asr.models.folder import WEIGHTS, copy_folder


def main() -> None:
    """Read the arguments and copy."""
    parser = argparse.ArgumentParser(description="Copy a model with quantised weights.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--bits", type=int, default=16, choices=[32, 16, 8])
    parser.add_argument(
        "--most", type=float, default=25.0, metavar="MB", help="largest size of the weights"
    )
    arguments = parser.parse_args()
    copy_folder(arguments.source, arguments.target, arguments.bits)
    size = (arguments.target / WEIGHTS).stat().st_size / 1e6
    print(f"{arguments.target}: {size:.1f} MB")
    if size > arguments.most:
        raise UserError(f"more than {arguments.most:g} MB: use a smaller model")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
