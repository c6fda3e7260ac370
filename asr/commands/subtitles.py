"""Files of subtitles: reading, translating, and writing them in another format."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from asr.errors import UserError, warn

if TYPE_CHECKING:
    from asr.render.ass import Script
    from asr.render.markup import Piece
    from asr.results import Span
    from asr.translation import Translation

SUBTITLES: Final = ("srt", "vtt", "ass", "ssa")


class Subtitles(NamedTuple):
    """The cues of a file and its format; script: of ASS and SSA alone."""

    cues: Sequence[Span]
    kind: str
    script: Script | None = None


def ending(path: Path) -> str:
    """Return the ending of a path in lower case, without its point."""
    return path.suffix.lower().removeprefix(".")


def read_subtitles(file: Path | None, encoding: str | None = None) -> Subtitles:
    """Read the cues of a file, or of stdin; the content shows the format.

    encoding: None finds it, and prints a warning where it is guessed.

    Raises:
        UserError: the file cannot be read, is in an unknown encoding, or a cue is damaged.
    """
    from asr.render.ass import Script, is_ass
    from asr.render.read_subtitles import parse_srt, parse_vtt
    from asr.text.encoding import read_text

    name = "the stream" if file is None else str(file)
    text = read_text(file or sys.stdin.buffer, encoding)
    try:
        if is_ass(text):
            script = Script(text)
            return Subtitles(script.cues, script.kind, script)
        if text.startswith("WEBVTT"):
            return Subtitles(parse_vtt(text), "vtt")
        return Subtitles(parse_srt(text, lambda damage: warn(f"{name}: {damage}")), "srt")
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def translated_subtitles(
    subtitles: Subtitles,
    kinds: Sequence[str | None],
    translate: Callable[[list[str]], list[Translation]],
) -> list[str]:
    """Translate the cues and return them in each of the formats; None is the format read.

    Raises:
        UserError: a format that holds no subtitles.
    """
    from asr.inference.subtitles import translate_cues

    for kind in kinds:
        if kind not in (None, *SUBTITLES, "text", "jsonl"):
            raise UserError(
                f"got subtitles and --format {kind}; wanted {', '.join(SUBTITLES)}, text or jsonl"
            )
    turns = translate_cues(subtitles.cues, translate)
    return [_rendered(subtitles, turns, kind or subtitles.kind) for kind in kinds]


def _rendered(subtitles: Subtitles, turns: Sequence[Sequence[Sequence[Piece]]], kind: str) -> str:
    from asr.inference.subtitles import written
    from asr.render.ass import to_ass
    from asr.render.markup import srt_text
    from asr.render.subtitles import to_srt, to_vtt_with_tags

    if kind not in SUBTITLES:
        return "".join(map(_record if kind == "jsonl" else _text, subtitles.cues, turns))
    texts = [written(each) for each in turns]
    if subtitles.script is not None:
        return subtitles.script.filled(texts).to(kind)
    cues = [cue._replace(text=text) for cue, text in zip(subtitles.cues, texts, strict=True)]
    if kind == "vtt":
        return to_vtt_with_tags(cues)
    cues = [cue._replace(text=srt_text(cue.text)) for cue in cues]
    return to_srt(cues) if kind == "srt" else to_ass(cues, kind)


def _plain(turns: Sequence[Sequence[Piece]]) -> str:
    from asr.render.markup import lay_out, without_tags

    return " ".join(without_tags(lay_out(pieces, lambda text: text)) for pieces in turns)


def _text(cue: Span, turns: Sequence[Sequence[Piece]]) -> str:
    return _plain(turns) + "\n"


def _record(cue: Span, turns: Sequence[Sequence[Piece]]) -> str:
    record = {"start": cue.start, "end": cue.end, "source": cue.text, "text": _plain(turns)}
    return json.dumps(record, ensure_ascii=False) + "\n"
