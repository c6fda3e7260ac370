"""`asr transcribe`: transcribe recordings, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from asr.audio import archive
from asr.audio.find import find_audio
from asr.audio.read import stated_seconds
from asr.commands.options import Decoding
from asr.commands.output import require_no_input
from asr.commands.progress import Bar
from asr.commands.resuming import opened_journal
from asr.commands.writers import (
    STDIN,
    Recording,
    Writer,
    check,
    is_streamed,
    opened,
    opened_file,
    targets,
)
from asr.errors import FAILED, UserError, complain, warn
from asr.render.subtitles import stamp
from asr.render.transcripts import SUBTITLES, Style, parts

if TYPE_CHECKING:
    from asr.inference.journal import Journal
    from asr.inference.recognizer import Recognizer
    from asr.inference.sources import Failure, Finished
    from asr.results import Segment, Transcript


def run(
    paths: Sequence[str],
    model: str | None,
    outputs: Sequence[str],
    kinds: Sequence[str],
    decoding: Decoding,
    batch_seconds: float | None,
    longest: float | None = None,
    plain: bool = False,
    digits: bool = False,
    n_best: int | None = None,
    device: str = "cpu",
    runtime: str = "auto",
    mark_below: float | None = None,
    keep_low_confidence: bool = False,
) -> int:
    """Transcribe files, folders and stdin ("-"); return 0, or 2 if any of them failed.

    outputs: files and folders (see `asr.commands.writers.targets`); none means stdout. kinds: of
    `FORMATS`; none: by the ending of each output.
    plain: write the bare words, without punctuation and capitals. digits: write numbers in digits.
    n_best: hypotheses of each segment. batch_seconds, longest: see `DecodingOptions`.
    mark_below, keep_low_confidence: see `Style`.
    Files are written at the end; until then a journal beside the first one allows to resume.
    If a recording fails, an error is printed on stderr and the others continue.

    Raises:
        UserError: no recording can be transcribed, or an output cannot be written.
    """
    wanted = targets(outputs, kinds)
    style = Style(mark_below, keep_low_confidence)
    found, missing = _expand(paths)
    check(wanted, found, n_best or 1, style)
    require_no_input(outputs, [each.path for each in found])
    if not found:
        return FAILED
    given = [kinds, device, runtime, plain, batch_seconds, longest, n_best, *decoding]
    with ExitStack() as stack:
        journal = stack.enter_context(opened_journal(wanted, found, model, given))
        streamed = is_streamed(wanted, found)
        files = [opened_file(each, stack) for each in wanted] if streamed else []
        writers = [] if streamed else [opened(each, found, stack, style) for each in wanted]
        from asr.inference.recognizer import Recognizer

        recognizer = decoding.applied(Recognizer.load(model, device, runtime))
        recognizer = recognizer.configured(
            batch_seconds=batch_seconds, longest=longest, n_best=n_best
        )
        if plain:
            recognizer = recognizer.plain()
        if digits:
            recognizer = recognizer.with_digits()
        recordings = [each.path for each in found]
        leaves_out = not style.keep_low_confidence and any(e.kind in SUBTITLES for e in wanted)
        with _progress(recordings) as bar:
            results = _results(recognizer, recordings, bar, journal)
            if streamed:
                kept: list[Segment | Finished | Failure] = []
                segments = _segments(results, kept)
                _write_as_it_comes(segments, wanted[0].kind, recordings[0], files[0], style)
                transcripts = _transcripts(kept, recognizer, recordings, leaves_out)
                written = sum(1 for _ in transcripts)
            else:
                transcripts = _transcripts(results, recognizer, recordings, leaves_out)
                written = _write(transcripts, writers)
        if outputs and not written:
            if journal is not None:
                journal.remove()
            names = ", ".join(outputs)
            raise UserError(f"nothing could be transcribed; {names} is not written")
    return FAILED if missing or written < len(found) else 0


def _expand(paths: Sequence[str]) -> tuple[list[Recording], int]:
    """Return the recordings of the paths, and the number of invalid paths, which are reported."""
    found: list[Recording] = []
    missing = 0
    for path in paths:
        try:
            if path != STDIN and not (Path(path).exists() or archive.is_there(path)):
                raise UserError(f"{path}: no such file or folder")
            root = Path(path) if Path(path).is_dir() else Path(path).parent
            for each in find_audio([path]):
                name = Path("stdin") if path == STDIN else each.relative_to(root).with_suffix("")
                found.append(Recording(each, name))
        except (UserError, OSError, ValueError) as error:  # ValueError: an invalid name
            complain(error)
            missing += 1
    return found, missing


def _progress(paths: Sequence[Path]) -> Bar:
    """Return a progress bar over recordings."""
    return Bar(sum(stated_seconds(each) or 0.0 for each in paths) if sys.stderr.isatty() else None)


def _results(
    recognizer: Recognizer,
    paths: Sequence[Path],
    bar: Bar,
    journal: Journal | None,
) -> Iterator[Segment | Finished | Failure]:
    """Yield the results of `segments_of_each`, without attention weights, which no format holds."""
    from asr.results import Segment

    nothing = np.zeros((0, 0), np.float32)
    sources = (sys.stdin.buffer if str(path) == STDIN else path for path in paths)
    for result in recognizer.segments_of_each(sources, on_progress=bar.advance, journal=journal):
        bar.clear()
        if isinstance(result, Segment):
            yield replace(result, weights=nothing, allowed=None)
        else:
            yield result


def _transcripts(
    results: Iterable[Segment | Finished | Failure],
    recognizer: Recognizer,
    paths: Sequence[Path],
    leaves_out: bool,
) -> Iterator[Transcript]:
    """Yield transcripts in order; print failures and warnings on stderr.

    leaves_out: whether an output leaves out segments of low confidence.
    """
    from asr.inference.sources import Failure

    for path, found in zip(paths, recognizer.joined(results), strict=True):
        if isinstance(found, Failure):
            complain(found.error)
            continue
        transcript = _warned(replace(found, path=str(path)))
        if leaves_out:
            _warn_of_left_out(transcript)
        yield transcript


def _warned(transcript: Transcript) -> Transcript:
    """Print a warning on stderr if a recording is probably no English speech, or no speech."""
    from asr.inference.plausibility import LEAST_ENGLISH
    from asr.results import StopReason

    if all(each.stop_reason == StopReason.SILENCE for each in transcript.segments):
        warn(f"{transcript.path}: no speech found; the transcript is empty")
    english = transcript.english
    if english is not None and english < LEAST_ENGLISH:
        warn(f"{transcript.path}: does not look like English speech: {english:.2f}")
    return transcript


def _warn_of_left_out(transcript: Transcript) -> None:
    """Print a warning on stderr with the times of segments that subtitles leave out."""
    times = [
        f"{stamp(each.start)}-{stamp(each.end)}"
        for each in transcript.segments
        if each.low_confidence
    ]
    if times:
        warn(
            f"{transcript.path}: low confidence, left out of the subtitles: {', '.join(times)}; "
            "--keep-low-confidence writes them"
        )


def _segments(
    results: Iterable[Segment | Finished | Failure], kept: list[Segment | Finished | Failure]
) -> Iterator[Segment]:
    """Yield the segments of one recording; keep all results for the warnings, without words."""
    from asr.results import Segment

    for result in results:
        if isinstance(result, Segment):
            is_low = result.low_confidence and bool(result.words)
            kept.append(replace(result, words=(), spellings=None, low_confidence=is_low))
            yield result
        else:
            kept.append(result)


def _write_as_it_comes(
    segments: Iterator[Segment], kind: str, path: Path, file: TextIO, style: Style
) -> None:
    """Write one recording segment by segment, nothing if there is none.

    If it fails, what was written before stays.
    """
    first = next(segments, None)
    if first is not None:
        for part in parts(chain([first], segments), kind, str(path), style):
            file.write(part)
            file.flush()


def _write(transcripts: Iterable[Transcript], writers: Sequence[Writer]) -> int:
    """Write each transcript as soon as it is ready, and return their number."""
    count = 0
    for count, transcript in enumerate(transcripts, 1):  # noqa: B007  # counted here, used below
        for writer in writers:
            writer.write(transcript)
    for writer in writers:
        writer.close()
    return count
