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
from asr.commands.subtitles import (
    SUBTITLES,
    ending,
    is_subtitles,
    read_subtitles,
    translated_subtitles,
)
from asr.errors import UserError
from asr.text.lines import read_lines

if TYPE_CHECKING:
    from asr.translation import Translation

FORMATS: Final = ("text", "jsonl", "pharaoh", "why", *SUBTITLES)
FILES: Final = {"text": ".txt", "jsonl": ".jsonl", **{each: f".{each}" for each in SUBTITLES}}


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
    outputs: Sequence[Path] = (),
    encoding: str | None = None,
) -> int:
    """Translate texts, the lines of a file or of stdin, or the cues of subtitles; return 0.

    texts: a single one may be the path of a file of subtitles.
    models: folders, several for an ensemble; if empty, the package's model for the target language
        `to`, by default the first of `asr.inference.translator.SHIPPED`.
    whole: translate each text as one sentence.
    kind: one of `FORMATS`; None means text, or for a file of subtitles its own format.
    heat_map: file for a picture of the attention weights; only for a single text.
    outputs: files in `FILES`; if empty, the translations are written to stdout.
    encoding: of subtitles; None finds it.

    Raises:
        UserError: there is no model or no text, or an output cannot be written.
    """
    if file is None and len(texts) == 1 and is_subtitles(path := Path(*texts)):
        texts, file = [], path
    if texts and file is not None:
        raise UserError("got texts and --file; wanted one of them")
    if models and to is not None:
        raise UserError("got --model and --to, which chooses a model of the package; wanted one")
    has_cues = kind in SUBTITLES or (file is not None and ending(file) in SUBTITLES)
    kinds = _kinds(kind, outputs, has_cues)
    if has_cues and (texts or heat_map is not None):
        raise UserError("subtitles come from --file or stdin, and have no heat map")
    if encoding is not None and not has_cues:
        raise UserError("--encoding is for subtitles; other texts are UTF-8")
    given = [] if has_cues else list(texts) or _lines(file)
    if heat_map is not None:
        format_of(heat_map, PICTURES)
        if len(given) != 1:
            raise UserError(f"a heat map shows one text, got {len(given)}")
    subtitles = read_subtitles(file, encoding) if has_cues else None
    with ExitStack() as stack:
        parts = [stack.enter_context(replacing(path)) for path in outputs]
        picture = None if heat_map is None else stack.enter_context(replacing(heat_map))
        translate = _loaded(models, to, beam, length_penalty, whole, device, runtime)
        if subtitles is not None:
            rendered = translated_subtitles(subtitles, kinds, translate)
        else:
            translations = translate(given)
            rendered = [_joined(translations, each or "text") for each in kinds]
            if picture is not None:
                _draw(translations[0], picture)
        for part, content in zip(parts, rendered, strict=bool(parts)):
            part.write_text(content, "utf-8", newline="\n")
    if not outputs:
        sys.stdout.write(rendered[0])
    return 0


def _kinds(kind: str | None, outputs: Sequence[Path], has_cues: bool) -> list[str | None]:
    """Return the format of each output, or of stdout; None: that of the input."""
    if not outputs:
        return [kind]
    if kind is not None:
        raise UserError("got --format and --output; the ending of an output sets its format")
    found = [format_of(path, FILES) for path in outputs]
    if not has_cues and (wrong := [each for each in found if each in SUBTITLES]):
        raise UserError(f"got texts and an output in {wrong[0]}; wanted .txt or .jsonl")
    return list(found)


def _draw(translation: Translation, path: Path) -> None:
    from asr.render.picture import draw_heat_map

    source, target, weights = translation.words
    draw_heat_map(path, weights, source, target, translation.source)


def _joined(translations: Sequence[Translation], kind: str) -> str:
    return "".join(f"{_rendered(each, kind)}\n" for each in translations)


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


def _lines(file: Path | None) -> list[str]:
    """Return the lines of a file, or of stdin."""
    return [line.text for line in read_lines(sys.stdin.buffer if file is None else file)]


def _rendered(translation: Translation, kind: str) -> str:
    from asr.alignment.links import pharaoh

    match kind:
        case "text":
            return translation.text
        case "pharaoh":
            return pharaoh(translation.words_of_sentences)
        case "why":
            return f"{translation.text}\n{_why(translation)}\n"
    return json.dumps(_record(translation), ensure_ascii=False)


def _why(translation: Translation) -> str:
    """Return a table of the translated words with their largest attention weights."""
    from asr.alignment.links import source_words
    from asr.render.tables import text_table
    from asr.translation import chained_words

    sentences = translation.words_of_sentences
    target = chained_words([each.target for each in sentences])
    rows = [
        (word, ", ".join(f"{look.text} {look.share:.0%}" for look in attended))
        for word, attended in zip(target[:-1], source_words(sentences), strict=True)
    ]
    return text_table(("word", "attention"), rows)


def _record(translation: Translation) -> dict[str, Any]:
    from asr.alignment.links import attention_record

    return {
        "source": translation.source,
        "text": translation.text,
        "log_probability": round(translation.log_probability, 3),
        "stop_reason": translation.stop_reason,
        "source_tokens": translation.source_tokens,
        "target_tokens": translation.target_tokens,
        **attention_record(translation.words_of_sentences),
    }
