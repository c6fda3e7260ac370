"""Advanced SubStation Alpha (.ass) and SubStation Alpha (.ssa), read and written by pysubs2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from asr.errors import UserError
from asr.render.read_subtitles import parse_srt
from asr.render.subtitles import to_srt, to_vtt_with_tags
from asr.results import Span

if TYPE_CHECKING:
    from pysubs2 import SSAEvent, SSAFile

_HEADER: Final = re.compile(r"\s*(?:;[^\n]*\n\s*)*\[script info\]", re.IGNORECASE)


def is_ass(text: str) -> bool:
    """Return whether a text begins as a file of one of the two formats."""
    return _HEADER.match(text) is not None


class Script:
    """A script: its styles and drawings are kept when its spoken lines are replaced."""

    def __init__(self, text: str) -> None:
        """Parse a script.

        Raises:
            UserError: it is none, or a line of it is damaged.
        """
        import pysubs2

        if not is_ass(text):
            raise UserError("ASS: the first line must be [Script Info]")
        try:
            self._file: SSAFile = pysubs2.SSAFile.from_string(text)
        except (pysubs2.Pysubs2Error, ValueError, IndexError) as error:
            raise UserError(f"ASS: cannot be read: {error}") from error

    @property
    def kind(self) -> str:
        """The format of the script: ass or ssa."""
        return self._file.format or "ass"

    @property
    def cues(self) -> list[Span]:
        """The lines that are shown as text, in the order of the file; tags as ``{\\an8}``."""
        return [
            Span(_unescaped(event.text), event.start / 1000, event.end / 1000)
            for event in self._shown()
        ]

    def filled(self, texts: Sequence[str]) -> Script:
        """Return the script with other texts, one for each of `cues`."""
        from copy import deepcopy

        other = deepcopy(self)
        for event, text in zip(other._shown(), texts, strict=True):
            event.text = _escaped(text)
        return other

    def to(self, kind: str) -> str:
        """Return the script in a format: ass, ssa, srt or vtt, with the tags that it has."""
        if kind == "vtt":  # pysubs2 does not escape & < >
            return to_vtt_with_tags(parse_srt(self._file.to_string("srt"), on_damage=None))
        return self._file.to_string(kind).rstrip("\n") + "\n"

    def _shown(self) -> list[SSAEvent]:
        return [each for each in self._file if not (each.is_comment or each.is_drawing)]


def to_ass(spans: Iterable[Span], kind: str = "ass") -> str:
    """Return spans as a script in the default style; kind: ass or ssa."""
    import pysubs2

    script = pysubs2.SSAFile.from_string(to_srt(spans), "srt")  # its tags become the script's
    return script.to_string(kind).rstrip("\n") + "\n"


def _unescaped(text: str) -> str:
    return text.replace("\\N", "\n").replace("\\n", "\n").replace("\\h", "\N{NO-BREAK SPACE}")


def _escaped(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", "\\h").replace("\n", "\\N")
