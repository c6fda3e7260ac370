"""`asr translate`: translate texts, or files of subtitles."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from asr.commands.align import PICTURES
from asr.commands.output import (
    format_of,
    format_of_output,
    is_folder,
    replacing,
    require_no_input,
)
from asr.commands.subtitles import SUBTITLES, ending, read_subtitles, translated_subtitles
from asr.commands.translate_inputs import Document, documents
from asr.errors import FAILED, UserError, complain, warn
from asr.text.lines import read_lines

if TYPE_CHECKING:
    from asr.translation import Translation

    Translate: TypeAlias = Callable[[list[str]], list[Translation]]

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
    outputs: Sequence[str] = (),
    encoding: str | None = None,
) -> int:
    """Translate texts, the lines of a file or of stdin, or the cues of subtitles; return 0.

    texts: or paths of files and folders (see `documents`), several with a folder to write to; then
        a file that fails is reported on stderr, the others continue, and 2 is returned.
    models: folders, several for an ensemble; if empty, the package's model for the target language
        `to`, by default the first of `asr.inference.translator.SHIPPED`.
    whole: translate each text as one sentence.
    kind: one of `FORMATS`; None means text, or for a file of subtitles its own format.
    heat_map: file for a picture of the attention weights; only for a single text.
    outputs: files in `FILES`, or a folder; if empty, the translations are written to stdout.
    encoding: of subtitles; None finds it.

    Raises:
        UserError: there is no model or no text, or an output cannot be written.
    """
    if texts and file is not None:
        raise UserError("got texts and --file; wanted one of them")
    if models and to is not None:
        raise UserError("got --model and --to, which chooses a model of the package; wanted one")
    found = [Document(file, Path(file.stem))] if file is not None else documents(texts)

    def load() -> Translate:
        return _loaded(models, to, beam, length_penalty, whole, device, runtime)

    if len(found) > 1 or any(map(is_folder, outputs)):
        targets = _targets(found, outputs, kind, heat_map)
        return _translate_files(found, targets, encoding, load())
    if found:
        texts, file = [], found[0].path
    paths = [*map(Path, outputs)]
    has_cues = kind in SUBTITLES or (file is not None and ending(file) in SUBTITLES)
    kinds = _kinds(kind, paths, has_cues)
    if file is not None:
        require_no_input(paths, [file])
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
        parts = [stack.enter_context(replacing(path)) for path in paths]
        picture = None if heat_map is None else stack.enter_context(replacing(heat_map))
        translate = load()
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
    found = [format_of_output(str(path), FILES) for path in outputs]
    if not has_cues and (wrong := [each for each in found if each in SUBTITLES]):
        raise UserError(f"got texts and an output in {wrong[0]}; wanted .txt or .jsonl")
    return list(found)


def _targets(
    found: Sequence[Document], outputs: Sequence[str], kind: str | None, heat_map: Path | None
) -> list[Path]:
    """Return the file below the output folder for each file that is translated.

    Raises:
        UserError: no single folder to write to, a format that is no file, or two files of one name.
    """
    if not found:
        raise UserError(f"{outputs[0]}: a folder takes translations of files; texts go to a file")
    if len(outputs) != 1 or not is_folder(outputs[0]):
        raise UserError(f"{len(found)} files to translate; name one folder for them: -o FOLDER/")
    if heat_map is not None:
        raise UserError("a heat map shows one text, got files")
    if kind not in (None, *FILES):
        raise UserError(f"--format {kind} is no format of files; wanted {', '.join(FILES)}")
    targets: dict[Path, Path] = {}
    for each in found:
        suffix = FILES[kind] if kind else each.path.suffix
        target = Path(outputs[0]) / each.name.with_name(each.name.name + suffix)
        other = targets.setdefault(target, each.path)
        if other != each.path:
            raise UserError(f"{other} and {each.path} would both be written to {target}")
    require_no_input(targets, [each.path for each in found])
    return list(targets)


def _translate_files(
    found: Sequence[Document], targets: Sequence[Path], encoding: str | None, translate: Translate
) -> int:
    """Translate each file; report those that fail, and return 2 if any did."""
    failed = 0
    for document, target in zip(found, targets, strict=True):
        try:
            content = _translated_file(document, ending(target), encoding, translate)
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as part:
                part.write_text(content, "utf-8", newline="\n")
        except (UserError, OSError) as error:
            complain(error)
            failed += 1
    return FAILED if failed else 0


def _translated_file(
    document: Document, suffix: str, encoding: str | None, translate: Translate
) -> str:
    kind = next(name for name, each in FILES.items() if each == f".{suffix}")
    if document.has_cues:
        subtitles = read_subtitles(document.path, encoding)
        (content,) = translated_subtitles(subtitles, [kind], translate)
        return content
    if kind in SUBTITLES:
        raise UserError(f"{document.path}: a text, which cannot be written as {kind}")
    return _joined(translate(_lines(document.path)), kind)


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
) -> Translate:
    from asr.inference.translator import Translator

    translator = Translator.load(models or None, to=to, device=device, runtime=runtime)

    def translate(texts: list[str]) -> list[Translation]:
        found = translator.translate(texts, beam=beam, length_penalty=length_penalty, whole=whole)
        foreign = [each.source for each in found if translator.is_foreign(each)]
        if foreign:
            warn(
                f"the model does not know the language of {len(foreign)} of {len(found)} texts, "
                f"such as {foreign[0][:40]!r}; is this the one that it reads?"
            )
        return found

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
