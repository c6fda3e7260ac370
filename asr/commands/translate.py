"""`asr translate`: texts in, their translations out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from asr.commands.align import PICTURES
from asr.commands.output import format_of, replacing
from asr.errors import UserError

if TYPE_CHECKING:
    from asr.translator import Translation


def run(
    texts: Sequence[str],
    file: Path | None,
    model: str | None,
    kind: str,
    beam: int,
    heat_map: Path | None,
) -> int:
    """Translate texts, or the lines of a file, or those of stdin; return 0.

    kind: "text" or "jsonl". heat_map: a picture of where the decoder looked, for a single text.

    Raises:
        UserError: there is no model, no text, or the picture cannot be drawn.
    """
    if model is None:
        raise UserError(
            "no translation model is in the package: give one with --model DIR "
            "(recipes/fra_eng trains one)"
        )
    if texts and file is not None:
        raise UserError("got texts and --file; wanted one of them")
    given = list(texts) or _lines(file)
    if heat_map is not None:
        format_of(heat_map, PICTURES)
        if len(given) != 1:
            raise UserError(f"a heat map shows one text, got {len(given)}")
    with ExitStack() as stack:
        part = None if heat_map is None else stack.enter_context(replacing(heat_map))
        from asr.translator import Translator

        translator = Translator.load(model)
        translations = translator.translate(given, beam=beam)
        for translation in translations:
            print(_rendered(translation, kind))
        if part is not None:
            translations[0].draw(part, translations[0].source)
    return 0


def _lines(file: Path | None) -> list[str]:
    """Lines of a text file, or of stdin."""
    try:
        content = sys.stdin.buffer.read() if file is None else file.read_bytes()
        return content.decode("utf-8-sig").removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UserError(f"{file or 'stdin'}: not UTF-8 text") from None


def _rendered(translation: Translation, kind: str) -> str:
    if kind == "text":
        return translation.text
    record = {
        "source": translation.source,
        "text": translation.text,
        "log_probability": round(translation.log_probability, 3),
        "stop_reason": translation.stop_reason,
        "source_tokens": translation.source_tokens,
        "target_tokens": translation.target_tokens,
    }
    return json.dumps(record, ensure_ascii=False)
