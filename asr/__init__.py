"""Speech to text with an attention encoder–decoder: `asr.load().transcribe("talk.flac")`.

Nothing heavy is imported before it is used: the names below are looked up on first access.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.errors import UserError
    from asr.inference.options import DecodingOptions
    from asr.inference.recognizer import Recognizer, load
    from asr.inference.sources import Failure
    from asr.inference.translator import Translator, load_translator
    from asr.reading import Reading, ReadStatus, ReadWord
    from asr.results import (
        Character,
        Segment,
        StopReason,
        Transcript,
        Word,
    )
    from asr.translation import Translation

__version__ = "0.1.0"

__all__ = [
    "Character",
    "DecodingOptions",
    "Failure",
    "ReadStatus",
    "ReadWord",
    "Reading",
    "Recognizer",
    "Segment",
    "StopReason",
    "Transcript",
    "Translation",
    "Translator",
    "UserError",
    "Word",
    "load",
    "load_translator",
]

_HOMES = {
    "Character": "asr.results",
    "DecodingOptions": "asr.inference.options",
    "Failure": "asr.inference.sources",
    "ReadStatus": "asr.reading",
    "ReadWord": "asr.reading",
    "Reading": "asr.reading",
    "Recognizer": "asr.inference.recognizer",
    "Segment": "asr.results",
    "StopReason": "asr.results",
    "Transcript": "asr.results",
    "Translation": "asr.translation",
    "Translator": "asr.inference.translator",
    "UserError": "asr.errors",
    "Word": "asr.results",
    "load": "asr.inference.recognizer",
    "load_translator": "asr.inference.translator",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
