"""Copy a trained model with its weights in 16 bits, which halves its size and changes no text.

    python recipes/librispeech/ship.py runs/shipped/model asr/pretrained/english

The card (README.md) beside the weights is written by hand, from figures that `asr evaluate` gave.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from safetensors.torch import load_file

from asr.models.checkpoint import WEIGHTS, read_folder, save_folder

MOST_BYTES = 25_000_000


def ship(source: Path, target: Path) -> int:
    """Write the 16-bit copy; return the size of its weights in bytes."""
    folder = read_folder(source, "speech")
    save_folder(
        target,
        task=folder.task,
        model=folder.model,
        vocabularies=folder.vocabularies,
        state=load_file(str(source / WEIGHTS)),
        notes=folder.notes,
        half=True,
    )
    return (target / WEIGHTS).stat().st_size


def main() -> None:
    """Read the arguments and ship."""
    parser = argparse.ArgumentParser(description="Copy a model with its weights in 16 bits.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    size = ship(arguments.source, arguments.target)
    print(f"{arguments.target}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES / 1e6:.0f} MB: take a smaller model")


if __name__ == "__main__":
    main()
