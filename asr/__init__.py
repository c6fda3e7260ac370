"""Speech to text with an attention encoder–decoder: `asr.load().transcribe("talk.flac")`.

Nothing heavy is imported before it is used: the names below are looked up on first access.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asr.decoding import DecodingSettings
    from asr.recognizer import Failure, Recognizer, load
    from asr.transcript import Segment, Transcript

__version__ = "0.1.0"

__all__ = [
    "DecodingSettings",
    "Failure",
    "Recognizer",
    "Segment",
    "Transcript",
    "load",
]

_HOMES = {
    "DecodingSettings": "asr.decoding",
    "Failure": "asr.recognizer",
    "Recognizer": "asr.recognizer",
    "Segment": "asr.transcript",
    "Transcript": "asr.transcript",
    "load": "asr.recognizer",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, as PEP 562 has it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
