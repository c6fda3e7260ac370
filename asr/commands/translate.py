"""`asr translate`: translate texts or subtitles."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from asr.commands.align import PICTURES
from asr.commands.output import format_of, replacing
from asr.errors import UserError
from asr.text.lines import read_lines

if TYPE_CHECKING:
    from asr.results import Span, Translation

SUBTITLES: Final = ("srt", "vtt")
FORMATS: Final = ("text", "jsonl", "pharaoh", "why", *SUBTITLES)


def run(
    texts: Sequence[str],
    file: Path | None,
    models: Sequence[str],
    to: str | None,
    kind: str | None,
    beam: int | None,
    length_penalty: float | None,
    whole: bool,
    heat_map: Path | None,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Translate texts, the lines of a file or of stdin, or the cues of subtitles; return 0.

    models: folders, several for an ensemble; if empty, the package's model for the target language
        `to`, by default the first of `asr.inference.translator.SHIPPED`.
    whole: translate each text as one sentence.
    kind: one of `FORMATS`; None means text, or for a file of subtitles its own format.
    heat_map: file for a picture of the attention weights; only for a single text.

    Raises:
        UserError: there is no model or no text, or the picture cannot be drawn.
    """
    if texts and file is not None:
        raise UserError("got texts and --file; wanted one of them")
    if models and to is not None:
        raise UserError("got --model and --to, which chooses a model of the package; wanted one")
    ending = file.suffix.lower().removeprefix(".") if file is not None else ""
    if kind in SUBTITLES or ending in SUBTITLES:
        if texts or heat_map is not None:
            raise UserError("subtitles come from --file or stdin, and have no heat map")
        cues = _cues("\n".join(_lines(file)))
        translate = _loaded(models, to, beam, length_penalty, whole, device, runtime)
        return _run_subtitles(cues, kind or ending, translate)
    given = list(texts) or _lines(file)
    if heat_map is not None:
        format_of(heat_map, PICTURES)
        if len(given) != 1:
            raise UserError(f"a heat map shows one text, got {len(given)}")
    with ExitStack() as stack:
        part = None if heat_map is None else stack.enter_context(replacing(heat_map))
        translations = _loaded(models, to, beam, length_penalty, whole, device, runtime)(given)
        for translation in translations:
            print(_rendered(translation, kind or "text"))
        if part is not None:
            from asr.render.picture import draw_heat_map

            first = translations[0]
            source, target, weights = first.words
            draw_heat_map(part, weights, source, target, first.source)
    return 0


def _loaded(
    models: Sequence[str],
    to: str | None,
    beam: int | None,
    length_penalty: float | None,
    whole: bool,
    device: str,
    runtime: str,
) -> Callable[[list[str]], list[Translation]]:
    from asr.inference.translator import Translator

    translator = Translator.load(models or None, to=to, device=device, runtime=runtime)

    def translate(texts: list[str]) -> list[Translation]:
        return translator.translate(texts, beam=beam, length_penalty=length_penalty, whole=whole)

    return translate


def _run_subtitles(
    cues: Sequence[Span], kind: str, translate: Callable[[list[str]], list[Translation]]
) -> int:
    """Translate the cues and print them with their times."""
    from asr.inference.subtitles import translate_cues
    from asr.render.subtitles import fit, to_srt, to_vtt

    if kind not in (*SUBTITLES, "text", "jsonl"):
        raise UserError(f"got subtitles and --format {kind}; wanted srt, vtt, text or jsonl")
    texts = translate_cues(cues, translate)
    if kind in SUBTITLES:
        filled = [
            cue._replace(text="\n".join(map(fit, lines)))
            for cue, lines in zip(cues, texts, strict=True)
        ]
        sys.stdout.write(to_srt(filled) if kind == "srt" else to_vtt(filled))
        return 0
    for cue, lines in zip(cues, texts, strict=True):
        text = " ".join(lines)
        record = {"start": cue.start, "end": cue.end, "source": cue.text, "text": text}
        print(text if kind == "text" else json.dumps(record, ensure_ascii=False))
    return 0


def _cues(content: str) -> list[Span]:
    from asr.render.subtitles import parse_srt, parse_vtt

    return parse_vtt(content) if content.startswith("WEBVTT") else parse_srt(content)


def _lines(file: Path | None) -> list[str]:
    """Return the lines of a file, or of stdin."""
    return [line.text for line in read_lines(sys.stdin.buffer if file is None else file)]


def _rendered(translation: Translation, kind: str) -> str:
    from asr.alignment.links import pharaoh

    match kind:
        case "text":
            return translation.text
        case "pharaoh":
            return pharaoh(translation.words)
        case "why":
            return f"{translation.text}\n{_why(translation)}\n"
    return json.dumps(_record(translation), ensure_ascii=False)


def _why(translation: Translation) -> str:
    """Return a table of the translated words with their largest attention weights."""
    from asr.alignment.links import source_words
    from asr.render.tables import text_table

    words = translation.words
    rows = [
        (word, ", ".join(f"{look.text} {look.share:.0%}" for look in attended))
        for word, attended in zip(words.target[:-1], source_words(words), strict=True)
    ]
    return text_table(("word", "attention"), rows)


def _record(translation: Translation) -> dict[str, Any]:
    from asr.alignment.links import pharaoh, source_words

    words = translation.words
    return {
        "source": translation.source,
        "text": translation.text,
        "log_probability": round(translation.log_probability, 3),
        "stop_reason": translation.stop_reason,
        "source_tokens": translation.source_tokens,
        "target_tokens": translation.target_tokens,
        "source_words": words.source,
        "target_words": words.target,
        "alignment": pharaoh(words),
        "looked_at": [
            [{"word": look.word, "share": round(look.share, 3)} for look in attended]
            for attended in source_words(words)
        ],
    }
