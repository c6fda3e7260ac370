"""`asr transcribe`: transcribe recordings, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

import numpy as np

from asr.audio.find import find_audio
from asr.audio.read import stated_seconds
from asr.commands.options import Decoding
from asr.commands.output import (
    FORMATS,
    OF_ONE_RECORDING,
    format_of,
    replacing,
)
from asr.errors import UserError, complain, warn
from asr.render.transcripts import STREAMED, parts, render

if TYPE_CHECKING:
    from tqdm import tqdm

    from asr.inference.recognizer import Failure, Finished, Recognizer
    from asr.results import Segment, Transcript

STDIN = "-"


def run(
    paths: Sequence[str],
    model: str | None,
    output: Path | None,
    kind: str | None,
    decoding: Decoding,
    batch_seconds: float | None,
    plain: bool = False,
    digits: bool = False,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Transcribe files, folders and stdin ("-"); return 0, or 2 if any of them failed.

    output: a file, or None for stdout. kind: one of `FORMATS`; None: by the ending of the output.
    plain: write the bare words, without punctuation and capitals. digits: write numbers in digits.
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
        if digits:
            recognizer = recognizer.with_digits()
        with _progress(found) as bar:
            results = _results(recognizer, found, bar)
            if len(found) == 1 and kind in STREAMED:
                written = _write_as_it_comes(results, recognizer, kind, found[0], file)
            else:
                written = _write(_transcripts(results, recognizer, found), kind, file)
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


def _progress(paths: Sequence[Path]) -> tqdm[NoReturn]:
    """Return a progress bar in seconds of audio, which is shown on a terminal only."""
    from tqdm import tqdm

    is_shown = sys.stderr.isatty()
    total = sum(map(stated_seconds, paths)) if is_shown else None
    return tqdm(total=total, unit="s", unit_scale=True, disable=not is_shown)


def _results(
    recognizer: Recognizer, paths: Sequence[Path], bar: tqdm[NoReturn]
) -> Iterator[Segment | Finished | Failure]:
    """Yield the results of `segments_of_each`, without attention weights, which no format holds."""
    from asr.results import Segment

    nothing = np.zeros((0, 0), np.float32)
    sources = (sys.stdin.buffer if str(path) == STDIN else path for path in paths)
    for result in recognizer.segments_of_each(sources, on_progress=bar.update):
        bar.clear()
        if isinstance(result, Segment):
            yield replace(result, weights=nothing, allowed=None)
        else:
            yield result


def _transcripts(
    results: Iterable[Segment | Finished | Failure], recognizer: Recognizer, paths: Sequence[Path]
) -> Iterator[Transcript]:
    """Yield transcripts in order; print failures and warnings on stderr."""
    from asr.inference.recognizer import Failure
    from asr.results import Segment, Transcript

    segments: list[Segment] = []
    names = iter(paths)
    for result in results:
        if isinstance(result, Segment):
            segments.append(result)
            continue
        path = str(next(names))
        if isinstance(result, Failure):
            complain(result.error)
        else:
            seconds = recognizer.loaded.seconds_per_annotation
            yield _warned(Transcript(path, segments[-1].end, seconds, tuple(segments)))
        segments = []


def _warned(transcript: Transcript) -> Transcript:
    """Print a warning on stderr if a recording is probably no English speech."""
    from asr.inference.plausibility import LEAST_ENGLISH

    english = transcript.english
    if english is not None and english < LEAST_ENGLISH:
        warn(f"{transcript.path}: does not look like English speech: {english:.2f}")
    return transcript


def _write_as_it_comes(
    results: Iterator[Segment | Finished | Failure],
    recognizer: Recognizer,
    kind: str,
    path: Path,
    file: TextIO,
) -> int:
    """Write one recording segment by segment; return 1, or 0 if it failed.

    If it fails, what was written before stays.
    """
    from asr.results import Segment

    seen: list[Segment | Finished | Failure] = []

    def segments() -> Iterator[Segment]:
        for result in chain([first], results):
            if not isinstance(result, Segment):
                seen.append(result)
                continue
            seen.append(replace(result, words=(), spellings=None))  # the warning needs the rest
            yield result

    first = next(results)
    if isinstance(first, Segment):
        for part in parts(segments(), kind, str(path)):
            file.write(part)
            file.flush()
    else:
        seen.append(first)
    return sum(1 for _ in _transcripts(seen, recognizer, [path]))


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
