"""The arguments of `asr translate`: texts, or paths of subtitles, text files and folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from asr.commands.output import FORMATS
from asr.commands.subtitles import SUBTITLES
from asr.errors import UserError

TEXT: Final = ".txt"
_SUBTITLES: Final = tuple(f".{each}" for each in SUBTITLES)
_OTHERS: Final = (".md", ".csv", ".tsv", ".html", ".xml", ".toml", ".pdf", ".docx", ".png")
_WANTED: Final = f"wanted texts, or files in {' '.join((*_SUBTITLES, TEXT))}, or a folder of them"


class Document(NamedTuple):
    """A file to translate, and its name below a folder of outputs, without ending."""

    path: Path
    name: Path

    @property
    def has_cues(self) -> bool:
        """Whether it is a file of subtitles, by its ending."""
        return self.path.suffix.lower() in _SUBTITLES


def documents(arguments: Sequence[str]) -> list[Document]:
    """Return the files that the arguments name, none if they are texts.

    A folder stands for the files of subtitles in it, at any depth.

    Raises:
        UserError: a path that is no such file, or both texts and paths.
    """
    found = [_named(each) for each in arguments]
    texts = [each for each, named in zip(arguments, found, strict=True) if named is None]
    if texts and len(texts) < len(found):
        raise UserError(f"got paths and the text {texts[0][:40]!r}; wanted one or the other")
    return [*dict.fromkeys(each for named in found if named is not None for each in named)]


def _named(argument: str) -> list[Document] | None:
    """Return the files that an argument names; None: it is a text."""
    if not argument.strip():  # as a path it would be this folder
        return None
    try:
        path = Path(argument)
        is_there = path.exists()
    except (OSError, ValueError):  # too long for a name, or a character that no name has
        return None
    ending = path.suffix.lower()
    if path.is_dir():
        return _inside(path)
    if path.is_file() and ending in (*_SUBTITLES, TEXT):
        return [Document(path, Path(path.stem))]
    if is_there:
        raise UserError(f"{argument}: cannot be translated; {_WANTED}; a text also from stdin")
    if argument.endswith(("/", os.sep)) or ending in _SUBTITLES or _is_name(argument):
        raise UserError(f"{argument}: no such file or folder; {_WANTED}; a text also from stdin")
    return None


def _is_name(argument: str) -> bool:
    """Return whether an argument without a space ends as files do."""
    from asr.audio.read import AUDIO_ENDINGS

    endings = {*_SUBTITLES, *_OTHERS, *AUDIO_ENDINGS, *map(str.lower, FORMATS.values())}
    return Path(argument).suffix.lower() in endings and not any(map(str.isspace, argument))


def _inside(folder: Path) -> list[Document]:
    paths = [
        (path, path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in _SUBTITLES and path.is_file()
    ]
    found = [
        Document(path, name.with_suffix(""))
        for path, name in paths
        if not any(part.startswith(".") for part in name.parts)
    ]
    if not found:
        raise UserError(f"{folder}: a folder without subtitles; {_WANTED}; a text also from stdin")
    return found
