"""Simplified and traditional Chinese, told apart and converted by OpenCC."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any

from asr.errors import UserError, install_command


class ChineseScript(StrEnum):
    """The script of a Chinese text; EITHER: all of its characters are the same in both."""

    SIMPLIFIED = "simplified"
    TRADITIONAL = "traditional"
    EITHER = "either"
    MIXED = "mixed"


def script_of(text: str) -> ChineseScript:
    """Return the script of a text.

    Raises:
        UserError: OpenCC is not installed.
    """
    is_simplified, is_traditional = to_simplified(text) == text, to_traditional(text) == text
    if is_simplified and is_traditional:
        return ChineseScript.EITHER
    if is_simplified:
        return ChineseScript.SIMPLIFIED
    return ChineseScript.TRADITIONAL if is_traditional else ChineseScript.MIXED


def to_simplified(text: str) -> str:
    """Return a text in simplified characters.

    Raises:
        UserError: OpenCC is not installed.
    """
    return str(_converter("t2s").convert(text))


def to_traditional(text: str) -> str:
    """Return a text in traditional characters; where there are several, in the most frequent one.

    Raises:
        UserError: OpenCC is not installed.
    """
    return str(_converter("s2t").convert(text))


@cache
def _converter(name: str) -> Any:  # OpenCC carries no types
    try:
        from opencc import OpenCC
    except ImportError:
        raise UserError(
            "simplified and traditional Chinese need OpenCC; install it: "
            + install_command("chinese")
        ) from None
    return OpenCC(name)
