"""`asr align`: word times as files, and the attention as a picture."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from asr.commands.options import Decoding
from asr.commands.output import FORMATS, format_of, replacing, require_no_input
from asr.errors import UserError
from asr.text.encoding import read_text

if TYPE_CHECKING:
    from asr.audio.read import Samples
    from asr.results import Transcript

PICTURES: Final = {"png": ".png", "svg": ".svg", "pdf": ".pdf"}
LONGEST_DRAWN: Final = 120.0  # seconds; in a longer picture no detail is visible


def run(
    audio: str,
    text: str | None,
    model: str | None,
    outputs: Sequence[Path],
    decoding: Decoding,
    device: str = "cpu",
    runtime: str = "auto",
    encoding: str | None = None,
) -> int:
    """Align a recording ("-" is stdin) with a text, or with its transcript, and return 0.

    text: or the name of a text file. outputs: files in `FORMATS` or `PICTURES`; if empty, a table
    is printed. encoding: of the text file; None finds it.

    Raises:
        UserError: the recording or the text cannot be used, or an output cannot be written.
    """
    kinds = [format_of(path, FORMATS | PICTURES) for path in outputs]
    require_no_input(outputs, (audio, text or ""))
    if text is not None:
        text = _text_of(text, encoding)
    with ExitStack() as stack:
        parts = [stack.enter_context(replacing(path)) for path in outputs]
        source = sys.stdin.buffer.read() if audio == "-" else audio
        samples = _drawable(source, audio) if PICTURES.keys() & kinds else None
        from asr.inference.recognizer import Recognizer

        recognizer = decoding.applied(Recognizer.load(model, device, runtime)).plain()
        transcript = replace(recognizer.align(source, text), path=audio)
        for kind, part in zip(kinds, parts, strict=True):
            if kind in PICTURES:
                assert samples is not None
                _draw(samples, transcript, part)
            elif kind == "json":
                part.write_text(json.dumps(transcript.record_with_weights()) + "\n", "utf-8")
            else:
                from asr.render.transcripts import render

                part.write_text(render(transcript, kind), "utf-8")
    if not outputs:
        sys.stdout.write(_table(transcript))
    return 0


def _text_of(given: str, encoding: str | None) -> str:
    """Return a text, or the lines of the text file with this name, joined by spaces.

    Raises:
        UserError: the file does not exist, or cannot be read or decoded.
    """
    if os.path.isfile(given):  # false if a text is too long for a name
        return " ".join(read_text(Path(given), encoding).split())
    if given.lower().endswith(".txt"):
        raise UserError(f"{given}: no such file; wanted a text, or a text file of it")
    return given


def _drawable(source: str | bytes, name: str) -> Samples:
    """Return the samples of a recording, which is not too long for a picture.

    Raises:
        UserError: it is, or it cannot be read.
    """
    from asr.audio.read import read

    waveform = read(source)
    if waveform.duration > LONGEST_DRAWN:
        raise UserError(
            f"{name}: {waveform.duration:.0f} s of audio; a picture shows at most "
            f"{LONGEST_DRAWN:.0f} s: cut the recording, or leave the picture out"
        )
    return waveform.samples


def _draw(samples: Samples, transcript: Transcript, path: Path) -> None:
    from asr.render.picture import draw_alignment

    draw_alignment(
        path,
        samples,
        transcript.weights,
        [character.text for character in transcript.characters],
        transcript.words,
        transcript.seconds_per_annotation,
        transcript.duration,
        transcript.text,
        transcript.allowed,
    )


def _table(transcript: Transcript) -> str:
    from asr.render.tables import text_table

    rows = [(word.start, word.end, word.confidence, word.text) for word in transcript.words]
    return text_table(("start", "end", "confidence", "word"), rows) + "\n" if rows else ""
