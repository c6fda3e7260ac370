"""Recordings inside tar archives: `shards/00012.tar/clip.flac` is the member `clip.flac`.

A member is read by its offset, wherever it lies in the archive, so the archive may be on a mounted
network drive or object store. Where the members lie is read from their headers, or from an index
beside the archive (`write_index`), which is one read in place of one for each member.
"""

from __future__ import annotations

import json
import os
import tarfile
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from asr.audio.cache import replacing
from asr.errors import UserError

INDEX: Final = ".index.json"  # after the name of the archive
SUFFIX: Final = ".tar"  # not compressed: a compressed archive can only be read from its beginning
_KEPT: Final = 4096  # archives whose headers are kept in memory


class Extent(NamedTuple):
    """Where the content of a member lies, in bytes."""

    offset: int
    size: int


def split(path: str | os.PathLike[str]) -> tuple[Path, str] | None:
    """Return the archive and the member that a path names; None if it names no member."""
    path = Path(path)
    for parent in path.parents:
        if parent.suffix.lower() == SUFFIX and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return None


def is_there(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a file or a member of an archive.

    Raises:
        UserError: the archive cannot be read.
    """
    found = split(path)
    return Path(path).is_file() if found is None else found[1] in members(found[0])


def size(path: str | os.PathLike[str]) -> int | None:
    """Return the bytes of a file or a member of an archive; None if it is not there.

    Raises:
        UserError: the archive cannot be read.
    """
    found = split(path)
    if found is None:
        return Path(path).stat().st_size if Path(path).is_file() else None
    extent = members(found[0]).get(found[1])
    return None if extent is None else extent.size


def members(archive: Path) -> dict[str, Extent]:
    """Return the files in an archive, by name.

    Raises:
        UserError: it cannot be read.
    """
    try:
        status = archive.stat()
        return _members(str(archive), status.st_mtime_ns, status.st_size)
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"{archive}: not a tar archive, or damaged: {error}") from None


def content(path: str | os.PathLike[str]) -> bytes | None:
    """Return the content of a member; None if the path names none.

    Raises:
        UserError: the archive cannot be read, or lacks the member or its end.
    """
    found = split(path)
    if found is None:
        return None
    archive, name = found
    extent = members(archive).get(name)
    if extent is None:
        raise UserError(f"{archive}: no file {name} in it")
    try:
        with archive.open("rb") as file:
            file.seek(extent.offset)
            read = file.read(extent.size)
    except OSError as error:
        raise UserError(f"{archive}: cannot be read: {error.strerror or error}") from error
    if len(read) < extent.size:
        raise UserError(f"{archive}: damaged: it ends within {name}")
    return read


def write_index(archive: Path) -> None:
    """Write the index of an archive: its size, and offset and size of each member in bytes."""
    index = {"size": archive.stat().st_size, "members": members(archive)}
    with replacing(_index_of(archive)) as file:
        file.write(json.dumps(index).encode())


@lru_cache(maxsize=_KEPT)
def _members(archive: str, changed: int, size: int) -> dict[str, Extent]:
    """Read the index or the headers; changed, size: of the file: another one is read anew."""
    try:
        index = json.loads(_index_of(Path(archive)).read_text("utf-8"))
        found = {name: Extent(*map(int, each)) for name, each in index["members"].items()}
        inside = (0 <= each.offset <= each.offset + each.size <= size for each in found.values())
        if index["size"] == size and all(inside):
            return found
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # there is none, or it is damaged or of another archive
    with tarfile.open(archive, "r:") as opened:
        return {
            os.path.normpath(each.name): Extent(each.offset_data, each.size)
            for each in opened
            if each.isreg() and not each.issparse()
        }


def _index_of(archive: Path) -> Path:
    return archive.with_name(archive.name + INDEX)
