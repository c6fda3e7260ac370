"""`asr read`: compare a recording with the page that was read aloud."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from asr.commands.options import Decoding
from asr.commands.output import format_of, replacing, require_no_input
from asr.errors import UserError, warn
from asr.reading import ReadStatus
from asr.text.encoding import read_text

if TYPE_CHECKING:
    from asr.audio.read import Waveform
    from asr.reading import Reading

FORMATS: Final = ("text", "json")  # of stdout
FILES: Final = {"text": ".txt", "json": ".json", "html": ".html"}
OF_ANOTHER_PAGE: Final = 0.3  # least share of right words; by chance up to 0.25 are


def run(
    audio: str,
    text: Path,
    model: str | None,
    outputs: Sequence[Path],
    kind: str | None,
    decoding: Decoding,
    device: str = "cpu",
    runtime: str = "auto",
    encoding: str | None = None,
) -> int:
    """Compare a recording ("-" is stdin) with the page in a text file, and return 0.

    outputs: files in `FILES`. kind: of stdout, one of `FORMATS`; None: text, or nothing if there
    are outputs. encoding: of the page; None finds it.

    Raises:
        UserError: the recording or the text cannot be used, or an output cannot be written.
    """
    require_no_input(outputs, (audio, text))
    page = read_page(text, encoding)
    with writing(outputs) as write:
        from asr.audio.read import read
        from asr.inference.recognizer import Recognizer

        source = sys.stdin.buffer.read() if audio == "-" else audio
        waveform = read(source)
        recognizer = decoding.applied(Recognizer.load(model, device, runtime))
        reading = replace(recognizer.read(source, page), path=audio)
        write(reading, waveform)
    if kind or not outputs:
        sys.stdout.write(render(reading, kind or "text", waveform, has_colour()))
    said = sum(word.start is not None for word in reading.words)
    if reading.count(ReadStatus.RIGHT) < OF_ANOTHER_PAGE * said:
        warn(f"{text}: little of {audio} was read from it; is this the right page?")
    return 0


def read_page(path: Path, encoding: str | None) -> str:
    """Return the text of a page, with its lines; encoding: None finds it.

    Raises:
        UserError: the file does not exist, cannot be read or decoded, or is empty.
    """
    if not os.path.exists(path):  # false if a text is too long for a name
        raise UserError(f"{path}: no such file; wanted a text file of the page, not its text")
    page = read_text(path, encoding)
    if not page.strip():
        raise UserError(f"{path}: an empty page")
    return page


@contextmanager
def writing(outputs: Sequence[Path]) -> Iterator[Callable[[Reading, Waveform], None]]:
    """Give a function that writes a reading to files in `FILES`, which exist if all goes well.

    Raises:
        UserError: a file has another ending, or cannot be written.
    """
    kinds = [format_of(path, FILES) for path in outputs]
    with ExitStack() as stack:
        parts = [stack.enter_context(replacing(path)) for path in outputs]

        def write(reading: Reading, waveform: Waveform) -> None:
            for name, part in zip(kinds, parts, strict=True):
                part.write_text(render(reading, name, waveform), "utf-8")

        yield write


def render(reading: Reading, kind: str, waveform: Waveform, colour: bool = False) -> str:
    """Return a reading in one of the formats in `FILES`."""
    if kind == "json":
        return json.dumps(reading.record(), indent=1) + "\n"
    if kind == "html":
        from asr.render.reading_page import to_html

        return to_html(reading, _flac(waveform), "audio/flac", Path(reading.path or "-").name)
    from asr.render.reading import to_text

    return to_text(reading, colour)


def has_colour() -> bool:
    """Return whether stdout is a terminal on which colour is wanted; see no-color.org."""
    is_refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not is_refused


def _flac(waveform: Waveform) -> bytes:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, waveform.samples, waveform.rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()
