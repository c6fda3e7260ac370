"""Where transcripts are written: stdout, a file, or a folder with a file for each recording."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TextIO

from asr.commands.output import (
    FORMATS,
    OF_ONE_RECORDING,
    WITH_ALTERNATIVES,
    format_of_output,
    is_folder,
    replacing,
)
from asr.errors import UserError
from asr.render.transcripts import MARKED, STREAMED, Style, render

if TYPE_CHECKING:
    from asr.results import Transcript

STDIN: Final = "-"


class Recording(NamedTuple):
    """A recording, and its name below a folder of outputs, without ending."""

    path: Path
    name: Path


class Target(NamedTuple):
    """An output: a file, a folder, or stdout (path None)."""

    path: Path | None
    kind: str
    is_folder: bool = False


class Writer(Protocol):
    """Takes transcripts one by one."""

    def write(self, transcript: Transcript) -> None:
        """Write a transcript as soon as it is ready."""

    def close(self) -> None:
        """Write what the format needs at its end."""


def targets(outputs: Sequence[str], kinds: Sequence[str]) -> list[Target]:
    """Return the outputs with their formats.

    outputs: paths; an existing folder, or a path that ends in a slash, holds a file for each
    recording in each format. kinds: of stdout or a single file, one at most, or of folders; none:
    by the ending.

    Raises:
        UserError: the format of an output is not known, or several for one file or stdout; or an
            output is "-".
    """
    kinds = [*dict.fromkeys(kinds)]
    if len(kinds) > 1 and not any(map(is_folder, outputs)):
        raise UserError(f"got --format {' and '.join(kinds)}; several need a folder: -o FOLDER/")
    if not outputs:
        return [Target(None, kinds[0] if kinds else next(iter(FORMATS)))]
    found = []
    for each in outputs:
        path = Path(each)
        if each == "-":
            raise UserError("got -o -, which is no file; without -o the output goes to stdout")
        if is_folder(each):
            if not kinds:
                raise UserError(f"{path}: a folder; name the format of its files with -f")
            found += [Target(path, kind, is_folder=True) for kind in kinds]
        else:
            overrides = bool(kinds) and len(outputs) == 1
            found.append(Target(path, kinds[0] if overrides else format_of_output(each, FORMATS)))
    if kinds and len(found) > 1 and not any(each.is_folder for each in found):
        raise UserError("got --format and several outputs; the ending of each sets its format")
    return found


def check(
    targets: Sequence[Target], recordings: Sequence[Recording], n_best: int, style: Style
) -> None:
    """Refuse formats that cannot hold what was asked for.

    Raises:
        UserError: several recordings in a format of one, alternatives in a format without them, or
            marks with no format that has them.
    """
    if style.mark_below is not None and not any(each.kind in MARKED for each in targets):
        raise UserError(f"--mark-below marks words in {', '.join(MARKED)}; got {targets[0].kind}")
    for target in targets:
        if target.kind in OF_ONE_RECORDING and len(recordings) > 1 and not target.is_folder:
            raise UserError(
                f"{target.kind} holds one recording, got {len(recordings)}; use jsonl for several, "
                "or -o FOLDER/ for a file of each"
            )
        if n_best > 1 and target.kind not in WITH_ALTERNATIVES:
            raise UserError(
                f"{target.kind} holds no alternatives (--n-best); "
                f"wanted {', '.join(WITH_ALTERNATIVES)}"
            )


def is_streamed(targets: Sequence[Target], recordings: Sequence[Recording]) -> bool:
    """Return whether the only recording can be written segment by segment."""
    (target, *others) = targets
    alone = len(recordings) == 1 and not others and not target.is_folder
    return alone and target.kind in STREAMED


def opened(
    target: Target, recordings: Sequence[Recording], stack: ExitStack, style: Style
) -> Writer:
    """Open an output; the stack closes it, and replaces the file if nothing failed.

    Raises:
        UserError: it cannot be written, or two recordings have the same name in a folder.
    """
    if target.is_folder:
        assert target.path is not None
        return FolderWriter(target.path, target.kind, recordings, style)
    return FileWriter(opened_file(target, stack), target.kind, style)


def opened_file(target: Target, stack: ExitStack) -> TextIO:
    """Open the file of a target, or stdout."""
    if target.path is None:
        return sys.stdout
    part = stack.enter_context(replacing(target.path))
    return stack.enter_context(part.open("w", encoding="utf-8", newline="\n"))


class FileWriter:
    """One file, or stdout, for all transcripts."""

    def __init__(self, file: TextIO, kind: str, style: Style) -> None:
        self._file = file
        self._kind = kind
        self._style = style
        self._records: list[dict[str, Any]] = []

    def write(self, transcript: Transcript) -> None:
        """See `Writer.write`."""
        if self._kind == "json":
            self._records.append(transcript.record())
            return
        self._file.write(render(transcript, self._kind, self._style))
        self._file.flush()

    def close(self) -> None:
        """See `Writer.close`."""
        if self._kind == "json":
            self._file.write(json.dumps(self._records, indent=1) + "\n")


class FolderWriter:
    """A file for each transcript, with the name of its recording."""

    def __init__(
        self, folder: Path, kind: str, recordings: Sequence[Recording], style: Style
    ) -> None:
        """Make the folder.

        Raises:
            UserError: it cannot be made, or two recordings would have the same file.
        """
        self._kind = kind
        self._style = style
        self._files = _files(folder, FORMATS[kind], recordings)
        self._new_folder = None if folder.is_dir() else folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: cannot be made: {error.strerror}") from error

    def write(self, transcript: Transcript) -> None:
        """See `Writer.write`."""
        file = self._files[str(transcript.path)]
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as part:
            part.write_text(render(transcript, self._kind, self._style), "utf-8", newline="\n")

    def close(self) -> None:
        """Remove the folder if it was made for nothing."""
        if self._new_folder is not None and not any(self._new_folder.iterdir()):
            self._new_folder.rmdir()


def _files(folder: Path, ending: str, recordings: Sequence[Recording]) -> Mapping[str, Path]:
    """Return the file of each recording, by its path."""
    owners: dict[Path, Path] = {}
    for path, name in recordings:
        file = folder / name.with_name(name.name + ending)
        other = owners.setdefault(file, path)
        if other != path:
            raise UserError(f"{other} and {path} would both be written to {file}; rename one")
    return {str(path): file for file, path in owners.items()}
