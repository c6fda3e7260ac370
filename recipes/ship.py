"""Copy a trained model with quantised weights and its decoding defaults, and check its size.

    python recipes/ship.py runs/continued/model asr/pretrained/english
    python recipes/ship.py runs/continued/model english-int8 --bits 8
    python recipes/ship.py runs/plus/model asr/pretrained/english-plus --language-model english \
        --boundaries english --voice-activity english --written written --set fastest=0.0

16 bits halve the size and do not change transcripts; 8 and 4 bits halve it again
(`asr.models.rounding`).
Language models of the source are copied unchanged; without any, those of the target are kept. The
model card (README.md) is written by hand, with figures measured on the copy.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asr.commands.options import add_overrides
from asr.errors import UserError, exit_status
from asr.inference.options import DecodingOptions
from asr.models.folder import WEIGHTS, copy_folder
from asr.tables import from_table


def decoding_defaults(overrides: Sequence[str]) -> dict[str, Any] | None:
    """Read decoding options as TOML; None without any.

    Raises:
        UserError: an unknown option, or a value out of range.
    """
    try:
        table = tomllib.loads("\n".join(overrides))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"--set: wanted KEY=VALUE, got {overrides}: {error}") from error
    from_table(DecodingOptions, table)
    return table or None


def main() -> None:
    """Read the arguments and copy."""
    parser = argparse.ArgumentParser(description="Copy a model with quantised weights.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--bits", type=int, default=16, choices=[32, 16, 8, 4, 3])
    parser.add_argument(
        "--most", type=float, default=25.0, metavar="MB", help="largest size of the weights"
    )
    parser.add_argument(
        "--language-model", metavar="NAME", help="use the language models of a packaged model"
    )
    parser.add_argument(
        "--boundaries", metavar="NAME", help="use the boundary model of a packaged model"
    )
    parser.add_argument(
        "--voice-activity", metavar="NAME", help="use the voice activity model of a packaged model"
    )
    parser.add_argument(
        "--written", metavar="NAME", help="use a packaged model of punctuation and case"
    )
    add_overrides(parser, "decoding default of the copy, such as lm_weight=0.6; may be repeated")
    arguments = parser.parse_args()
    decoding = decoding_defaults(arguments.overrides)
    copy_folder(
        arguments.source,
        arguments.target,
        arguments.bits,
        decoding,
        language_model=arguments.language_model,
        boundaries=arguments.boundaries,
        voice_activity=arguments.voice_activity,
        written=arguments.written,
    )
    size = (arguments.target / WEIGHTS).stat().st_size / 1e6
    print(f"{arguments.target}: {size:.1f} MB")
    if size > arguments.most:
        raise UserError(f"more than {arguments.most:g} MB: use a smaller model")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
