"""`asr read --follow` and `--microphone`: the sentence that is being read, then the comparison."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from asr.commands.live import STDIN, chunks
from asr.commands.options import Decoding
from asr.commands.output import require_no_input
from asr.commands.read import has_colour, read_page, render, writing
from asr.errors import UserError

if TYPE_CHECKING:
    from asr.inference.follower import Follower, Position


def run(
    audio: str | None,
    text: Path,
    microphone: bool,
    rate: int,
    model: str | None,
    outputs: Sequence[Path],
    kind: str | None,
    decoding: Decoding,
    device: str = "cpu",
    runtime: str = "auto",
    encoding: str | None = None,
) -> int:
    """Write a line for each sentence when it is begun, and at the end the reading; return 0.

    audio: "-", raw 16-bit little-endian samples of one channel from stdin; None with the
    microphone. rate: of the samples, in Hz. outputs, kind, encoding: as in
    `asr.commands.read.run`; "json" writes a record a line, one for each word that is reached, and
    the reading as the last. Ctrl-C ends the microphone.

    Raises:
        UserError: other audio, a rate out of range, a page or output that cannot be used, no
            speech, or a model that cannot follow a page.
    """
    if audio != (None if microphone else STDIN):
        wanted = "--microphone takes no file" if microphone else "--follow reads raw samples from -"
        raise UserError(f"{wanted}; got {audio or 'none'}")
    require_no_input(outputs, [text])
    page = read_page(text, encoding)
    with writing(outputs) as write:
        from asr.audio.read import Waveform
        from asr.inference.follower import Follower
        from asr.inference.recognizer import Recognizer

        recognizer = decoding.applied(Recognizer.load(model, device, runtime))
        follower = Follower(recognizer, page, rate)
        show = _records(follower) if kind == "json" else _Sentences(follower, sys.stderr)
        _follow(follower, microphone, rate, show)
        show(follower.finish())
        waveform = Waveform(follower.samples())
        reading = replace(follower.reading(), path=audio)
        write(reading, waveform)
    if kind == "json":
        print(json.dumps({"type": "reading", **reading.record()}), flush=True)
    elif kind or not outputs:
        sys.stdout.write("\n" + render(reading, "text", waveform, has_colour()))
    return 0


def _follow(
    follower: Follower, microphone: bool, rate: int, show: Callable[[Iterable[Position]], None]
) -> None:
    """Follow the reader to the end of the audio, or as long as a page may be read."""
    for samples in chunks(microphone, rate):
        show(follower.push(samples))
        if follower.is_full:
            seconds = follower.samples().size / 16_000
            print(f"asr: stopped after {seconds:.0f} s of a recording", file=sys.stderr)
            return


def _records(follower: Follower) -> Callable[[Iterable[Position]], None]:
    def show(positions: Iterable[Position]) -> None:
        for position in positions:
            print(json.dumps(position.record(follower.words)), flush=True)

    return show


class _Sentences:
    """Writes a sentence to stdout when it is begun; on a terminal, its current word over itself."""

    def __init__(self, follower: Follower, terminal: TextIO) -> None:
        self._follower = follower
        self._terminal = terminal if terminal.isatty() else None
        self._shown = -1

    def __call__(self, positions: Iterable[Position]) -> None:
        words, sentences = self._follower.words, self._follower.sentences
        for position in positions:
            self._over("")
            if position.sentence != self._shown:
                self._shown = position.sentence
                its = [w.text for w, s in zip(words, sentences, strict=True) if s == self._shown]
                print(f"{position.time:6.1f} s  {' '.join(its)}", flush=True)
            self._over(f"          {words[position.word].text}")

    def _over(self, text: str) -> None:
        if self._terminal is not None:
            print(f"\r\x1b[K{text}", end="", file=self._terminal, flush=True)
