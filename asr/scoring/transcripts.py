"""Reading and pairing of reference and hypothesis files for scoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from asr.errors import UserError
from asr.scoring.words import Scored
from asr.text.lines import read_entries, read_lines

SHOWN = 3  # ids listed in an error message before "…"


class Line(NamedTuple):
    """One text of a transcript file; `duration` in seconds."""

    id: str
    text: str
    speaker: str | None = None
    duration: float | None = None
    gender: str | None = None
    accent: str | None = None


def read_transcripts(path: str | Path) -> list[Line]:
    """Read a transcript file, plain text or JSON lines.

    A .jsonl file has one object per line: "text" and "id", or instead of the id a "path" or
    "audio", whose file name without ending is the id; "speaker", "gender", "accent" and
    "duration" (seconds) are optional. Any other file has one utterance per line; its id is the line
    number, from "1".

    Raises UserError if the file cannot be read, a line is not such an object, or an id is repeated.
    """
    path = Path(path)
    if path.suffix.lower() != ".jsonl":
        return [Line(str(number), row.strip()) for number, row in read_lines(path)]
    lines = [_parse(row, f"{path}:{number}") for number, row in read_entries(path)]
    seen: set[str] = set()
    for line in lines:
        if line.id in seen:
            raise UserError(f"{path}: the id {line.id} occurs twice; ids must be unique")
        seen.add(line.id)
    return lines


def pair_transcripts(reference: str | Path, hypothesis: str | Path) -> list[Scored]:
    """Read two transcript files and pair them: .jsonl by id, plain text by line.

    Speaker, duration, gender and accent are taken from the reference, if it has them.

    Raises UserError if a file cannot be read, or one has lines that the other lacks.
    """
    reference, hypothesis = Path(reference), Path(hypothesis)
    if (reference.suffix.lower() == ".jsonl") != (hypothesis.suffix.lower() == ".jsonl"):
        raise UserError(
            f"got {reference.name} and {hypothesis.name}; wanted two .jsonl files (paired by id) "
            "or two text files (paired by line)"
        )
    left, right = read_transcripts(reference), read_transcripts(hypothesis)
    if reference.suffix.lower() != ".jsonl" and len(left) != len(right):
        raise UserError(
            f"{reference} has {len(left)} lines and {hypothesis} has {len(right)}; "
            "wanted one hypothesis a line, in the order of the references"
        )
    texts = {line.id: line.text for line in right}
    _refuse_missing(hypothesis, [line.id for line in left if line.id not in texts])
    known = {line.id for line in left}
    _refuse_missing(reference, [line.id for line in right if line.id not in known])
    return [Scored(one.id, one.text, texts[one.id], *one[2:]) for one in left]


def _refuse_missing(path: Path, ids: list[str]) -> None:
    if ids:
        shown = ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")
        raise UserError(f"{path} lacks {len(ids)} of the other file's ids: {shown}")


def _parse(row: str, place: str) -> Line:
    try:
        content: Any = json.loads(row)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{place}: not JSON ({error}); wanted one object a line") from None
    match content:
        case {"id": str(name), "text": str(text)}:
            pass
        case {"path": str(file), "text": str(text)} | {"audio": str(file), "text": str(text)}:
            name = Path(file).stem
        case _:
            raise UserError(f'{place}: wanted an object with "id" (or "path") and "text", strings')
    speaker, duration = content.get("speaker"), content.get("duration")
    if not isinstance(duration, int | float | None):
        raise UserError(f'{place}: "duration" is {duration!r}; wanted seconds')
    groups = (content.get(key) or None for key in ("gender", "accent"))
    named = (None if group is None else str(group) for group in groups)
    return Line(name, text, None if speaker is None else str(speaker), duration, *named)
