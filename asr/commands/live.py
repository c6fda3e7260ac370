"""`asr transcribe --live` and `--microphone`: text while somebody speaks."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

from asr.commands.options import Decoding
from asr.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from asr.inference.live import Event

STDIN: Final = "-"
FORMATS: Final = ("text", "jsonl")
# How files of audio begin: WAV, FLAC, Ogg, MP3 (three), WebM.
BEGINNINGS: Final = (b"RIFF", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\x1aE\xdf\xa3")
PIPE_BYTES: Final = 65_536  # read at once, or what there is


def run(
    paths: Sequence[str],
    microphone: bool,
    rate: int,
    model: str | None,
    kind: str | None,
    decoding: Decoding,
    plain: bool = False,
    digits: bool = False,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Write text to stdout as soon as it is final, one segment a line; return 0.

    paths: "-" alone, raw 16-bit little-endian samples of one channel from stdin; none with the
    microphone. rate: of the samples, in Hz. kind: one of `FORMATS`; None: text. "jsonl" also has
    the partial texts, which are else shown on stderr if that is a terminal. Ctrl-C ends the
    microphone.

    Raises:
        UserError: other paths or formats, a rate out of range, or a model without a CTC head.
    """
    if list(paths) != ([] if microphone else [STDIN]):
        wanted = "--microphone takes no path" if microphone else "--live reads raw samples from -"
        raise UserError(f"{wanted}; got {' '.join(paths) or 'none'}")
    if kind not in (None, *FORMATS):
        raise UserError(f"live text has the formats {' and '.join(FORMATS)}, got {kind}")
    from asr.inference.live import LiveText
    from asr.inference.recognizer import Recognizer

    recognizer = decoding.applied(Recognizer.load(model, device, runtime))
    if plain:
        recognizer = recognizer.plain()
    if digits:
        recognizer = recognizer.with_digits()
    text = LiveText(recognizer, rate)
    show = _Lines(sys.stderr if sys.stderr.isatty() else None) if kind != "jsonl" else _show_record
    for samples in chunks(microphone, rate):
        for event in text.push(samples):
            show(event)
    for event in text.finish():
        show(event)
    return 0


def chunks(microphone: bool, rate: int) -> Iterator[NDArray[np.float32]]:
    """Yield samples (S,) in [-1, 1) as they come.

    microphone: until Ctrl-C; else raw 16-bit little-endian samples of one channel are read from
    stdin. rate: in Hz.

    Raises:
        UserError: the microphone cannot be used.
    """
    from asr.commands.microphone import from_microphone
    from asr.inference.live_audio import pcm_samples

    return map(pcm_samples, from_microphone(rate) if microphone else _from_pipe(sys.stdin.buffer))


class _Lines:
    """Writes final text as lines to stdout, and partial text over itself to a terminal."""

    def __init__(self, terminal: TextIO | None) -> None:
        self._terminal = terminal

    def __call__(self, event: Event) -> None:
        from asr.inference.live import Partial

        if self._terminal is not None:
            width = shutil.get_terminal_size().columns - 1
            partial = event.text[-width:] if isinstance(event, Partial) else ""
            print(f"\r\x1b[K{partial}", end="", file=self._terminal, flush=True)
        if not isinstance(event, Partial):
            print(event.segment.written, flush=True)


def _show_record(event: Event) -> None:
    print(json.dumps(event.record()), flush=True)


def _from_pipe(stream: BinaryIO) -> Iterator[bytes]:
    """Yield whole samples as they come.

    Raises:
        UserError: the stream begins like a file of audio, whose bytes are no samples.
    """
    rest, is_first = b"", True
    while content := stream.read1(PIPE_BYTES):  # type: ignore[attr-defined]
        if is_first and content.startswith(BEGINNINGS):
            raise UserError(
                "stdin: a file of audio, wanted raw samples: "
                "ffmpeg -v error -i FILE -f s16le -ac 1 -ar 16000 - | asr …"
            )
        is_first = False
        content = rest + content
        whole = len(content) // 2 * 2
        yield content[:whole]
        rest = content[whole:]
