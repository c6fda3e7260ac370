"""`asr transcribe`: transcribe recordings, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from asr.audio.read import find_audio
from asr.commands.options import Decoding
from asr.commands.output import (
    FORMATS,
    OF_ONE_RECORDING,
    format_of,
    render,
    replacing,
)
from asr.errors import UserError, complain

if TYPE_CHECKING:
    from asr.inference.recognizer import Recognizer
    from asr.results import Transcript

STDIN = "-"


def run(
    paths: Sequence[str],
    model: str | None,
    output: Path | None,
    kind: str | None,
    decoding: Decoding,
    batch_seconds: float | None,
    plain: bool = False,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Transcribe files, folders and stdin ("-"); return 0, or 2 if any of them failed.

    output: a file, or None for stdout. kind: one of `FORMATS`; None: by the ending of the output.
    plain: write the bare words, without punctuation and capitals.
    If a recording fails, an error is printed on stderr and the others continue.

    Raises:
        UserError: no recording can be transcribed, or the output cannot be written.
    """
    if kind is None:
        kind = "text" if output is None else format_of(output, FORMATS)
    found, missing = _expand(paths)
    if kind in OF_ONE_RECORDING and len(found) > 1:
        raise UserError(f"{kind} holds one recording, got {len(found)}; use jsonl for several")
    with ExitStack() as stack:
        file = sys.stdout
        if output is not None:
            part = stack.enter_context(replacing(output))
            file = stack.enter_context(part.open("w", encoding="utf-8", newline="\n"))
        if not found:
            return 2
        from asr.inference.recognizer import Recognizer

        recognizer = decoding.applied(Recognizer.load(model, device, runtime))
        recognizer = recognizer.configured(batch_seconds=batch_seconds)
        if plain:
            recognizer = recognizer.plain()
        written = _write(_transcripts(recognizer, found), kind, file)
        if output is not None and not written:
            raise UserError(f"nothing could be transcribed; {output} is not written")
    return 2 if missing or written < len(found) else 0


def _expand(paths: Sequence[str]) -> tuple[list[Path], int]:
    """Return the recordings of the paths, and the number of invalid paths, which are reported."""
    found: list[Path] = []
    missing = 0
    for path in paths:
        try:
            if path != STDIN and not Path(path).exists():
                raise UserError(f"{path}: no such file")
            found += find_audio([path])
        except (UserError, OSError, ValueError) as error:  # ValueError: an invalid name
            complain(error)
            missing += 1
    return found, missing


def _transcripts(recognizer: Recognizer, paths: Sequence[Path]) -> Iterator[Transcript]:
    """Yield transcripts in order; print failures on stderr, and a progress bar on a terminal."""
    from tqdm import tqdm

    from asr.inference.recognizer import Failure

    is_shown = sys.stderr.isatty()
    total = sum(map(_seconds, paths)) if is_shown else None
    sources = (sys.stdin.buffer if str(path) == STDIN else path for path in paths)
    with tqdm(total=total, unit="s", unit_scale=True, disable=not is_shown) as bar:
        results = recognizer.transcribe_each(sources, on_progress=bar.update)
        for path, result in zip(paths, results, strict=True):
            bar.clear()
            if isinstance(result, Failure):
                complain(result.error)
            else:
                yield replace(result, path=str(path))


def _write(transcripts: Iterable[Transcript], kind: str, file: TextIO) -> int:
    """Write each transcript as soon as it is ready, and return their number."""
    count = 0
    records = []
    for count, transcript in enumerate(transcripts, 1):  # noqa: B007  # counted here, used below
        if kind == "json":
            records.append(transcript.record())
            continue
        file.write(render(transcript, kind))
        file.flush()
    if kind == "json":
        file.write(json.dumps(records, indent=1) + "\n")
    return count


def _seconds(path: Path) -> float:
    """Return the duration in seconds from the header; 0 if the header does not state it."""
    import soundfile

    try:
        header = soundfile.info(str(path))
    except (soundfile.SoundFileError, TypeError):
        return 0.0
    return float(header.duration) if header.frames < 2**62 else 0.0
