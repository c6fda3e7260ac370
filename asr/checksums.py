"""Checksums: of the files of a folder, in `checksums.json`, and of one file, at its own end.

A file that a folder lists is verified whenever it is read; a folder without the list, as earlier
versions wrote it, is read unverified. Files are written beside their place and renamed, so that a
full disk or a kill leaves the old one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from asr.errors import UserError

CHECKSUMS = "checksums.json"
FORMAT = 1
_SEAL = b"\nasr-sha256 "  # before the digest at the end of a sealed file
_DIGITS = 64  # of a sha256 in hexadecimal


def write_whole(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file that is there completely or not at all: beside its place, synced, renamed.

    Raises:
        OSError: it cannot be written; a file that was there before is as it was.
    """
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write the list of a folder, of the files of these names that are there."""
    sums = {
        name: digest((folder / name).read_bytes())
        for name in sorted(names)
        if (folder / name).is_file()
    }
    content = {"format": FORMAT, "sha256": sums, "of_these": _digest_of_list(sums)}
    write_whole(folder / CHECKSUMS, (json.dumps(content, indent=1) + "\n").encode())


def renew_checksum(file: Path) -> None:
    """Bring the list of a file's folder up to date after the file has changed; if there is one."""
    if (file.parent / CHECKSUMS).is_file():
        write_checksums(file.parent, {*read_checksums(file.parent), file.name})


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the list of a folder, file name → sha256; empty if it has none.

    Raises:
        UserError: it cannot be read, or is not such a list.
    """
    path = folder / CHECKSUMS
    try:
        content = json.loads(path.read_text("utf-8"))
        number, sums = content["format"], content["sha256"]
        if number == FORMAT and content["of_these"] == _digest_of_list(sums):
            return dict(sums)
        if number == FORMAT:
            raise ValueError("its own checksum differs")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: damaged, or not a list of checksums") from error
    raise UserError(f"{path}: format {number!r}, but this version reads format {FORMAT}")


def read_verified(file: Path) -> bytes:
    """Return the content of a file, verified if its folder lists it.

    Raises:
        OSError: it cannot be read.
        UserError: its checksum differs, or the list is damaged.
    """
    content = file.read_bytes()
    wanted = read_checksums(file.parent).get(file.name)
    if wanted is not None and wanted != digest(content):
        raise UserError(
            f"{file}: damaged: its checksum is not the one in {CHECKSUMS}; get a whole copy (if it "
            f"was changed on purpose: asr check {file.parent} --renew)"
        )
    return content


def seal(content: bytes | memoryview) -> bytes:
    """Return what is to be written after the content of a file: its checksum."""
    return _SEAL + digest(content).encode()


def unsealed(content: bytes) -> tuple[bytes, bool]:
    """Return the content without its checksum, and whether it had one.

    Raises:
        ValueError: the checksum differs.
    """
    start = len(content) - len(_SEAL) - _DIGITS
    if start < 0 or content[start : start + len(_SEAL)] != _SEAL:
        return content, False
    inner = content[:start]
    if content[start + len(_SEAL) :] != digest(inner).encode():
        raise ValueError("its checksum differs")
    return inner, True


def _digest_of_list(sums: dict[str, str]) -> str:
    return digest(json.dumps(sums, sort_keys=True).encode())


def digest(content: bytes | memoryview) -> str:
    """Return the sha256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
