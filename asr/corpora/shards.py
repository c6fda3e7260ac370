"""Shards: many recordings and their texts in one tar archive, in the layout of WebDataset.

Files of a recording share a key, the name up to its first dot: `key.flac`, and its text in
`key.json` or `key.txt`. Network drives and object stores read a few large files faster than
millions of small ones. `asr.audio.archive` reads single members of an archive.
"""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict, deque
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, Final

from asr.audio import archive
from asr.audio.cache import replacing
from asr.audio.read import AUDIO_ENDINGS
from asr.corpora.entries import Entry
from asr.corpora.manifest import Utterance, read_manifest, write_manifest
from asr.errors import UserError

MANIFEST: Final = "manifest.jsonl"
_TEXTS: Final = ("text", "transcript", "sentence")  # names that the text may have in a .json


def write_shards(
    manifest: Path, folder: Path, megabytes: float, audio_in: Path | None = None
) -> Path:
    """Copy the recordings of a manifest into shards, and return the manifest of these.

    megabytes: size from which on a shard is complete. audio_in: see `read_manifest`. A shard that
    is being written has another name, and the manifest is written last.

    Raises:
        UserError: the manifest or a recording cannot be read, the size is not above 0, or the
            folder holds shards already.
    """
    if not megabytes > 0:
        raise UserError(f"shards of {megabytes:g} MB, wanted a size above 0")
    left = deque(enumerate(read_manifest(manifest, audio_in)))
    if any(folder.glob(f"*{archive.SUFFIX}")):
        raise UserError(f"{folder}: holds shards already; wanted another folder")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Utterance] = []
    shards = 0
    while left:
        written += _write_shard(folder / f"{shards:06d}{archive.SUFFIX}", left, megabytes * 1e6)
        shards += 1
    write_manifest(folder / MANIFEST, written)
    return folder / MANIFEST


def read_webdataset(folder: Path) -> list[Entry]:
    """Read the shards of a folder; a recording without a text gets an empty one.

    Raises:
        UserError: there are no shards, or one cannot be read.
    """
    shards = sorted(folder.glob(f"*{archive.SUFFIX}"))
    if not shards:
        raise UserError(f"{folder}: no shards in it ({archive.SUFFIX} files)")
    return [entry for shard in shards for entry in _entries(shard)]


def _write_shard(path: Path, left: deque[tuple[int, Utterance]], size: float) -> list[Utterance]:
    """Write the first of the utterances that are left, until the shard has `size` bytes.

    Returns these utterances, with their audio in the shard.
    """
    written: list[Utterance] = []
    with replacing(path) as file, tarfile.open(fileobj=file, mode="w") as shard:
        while left and (not written or file.tell() < size):
            number, utterance = left.popleft()
            name = f"{number:09d}{utterance.audio.suffix.lower()}"
            _add(shard, name, _content(utterance.audio))
            _add(shard, f"{number:09d}.json", json.dumps(_record(utterance)).encode())
            written.append(replace(utterance, audio=path / name))
    archive.write_index(path)
    return written


def _add(shard: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    shard.addfile(header, BytesIO(content))


def _content(audio: Path) -> bytes:
    inside = archive.content(audio)
    try:
        return audio.read_bytes() if inside is None else inside
    except OSError as error:
        raise UserError(f"{audio}: cannot be read: {error.strerror}") from error


def _record(utterance: Utterance) -> dict[str, Any]:
    """Return what a manifest says of an utterance, without its audio."""
    record = {
        "id": utterance.id,
        "text": utterance.text if utterance.written is None else utterance.written,
        "norm": utterance.text,
        "speaker": utterance.speaker,
        "gender": utterance.gender,
        "accent": utterance.accent,
    }
    return {name: value for name, value in record.items() if value is not None}


def _entries(shard: Path) -> list[Entry]:
    files: dict[str, dict[str, str]] = defaultdict(dict)  # of each key, name by ending
    for name in archive.members(shard):
        path = PurePosixPath(name)
        stem, _, ending = path.name.partition(".")
        files[(path.parent / stem).as_posix()][f".{ending.lower()}"] = name
    found = []
    for key, names in files.items():
        audio = next((name for ending, name in names.items() if ending in AUDIO_ENDINGS), None)
        if audio is not None:
            found.append(_entry(shard, key, shard / audio, names))
    return found


def _entry(shard: Path, key: str, audio: Path, names: dict[str, str]) -> Entry:
    record = _json(shard / names[".json"]) if ".json" in names else {}
    text = next((str(record[name]) for name in _TEXTS if record.get(name) is not None), "")
    if ".txt" in names:
        text = (archive.content(shard / names[".txt"]) or b"").decode("utf-8", "replace")
    spoken, speaker, gender, accent = (
        None if record.get(name) is None else str(record[name])
        for name in ("norm", "speaker", "gender", "accent")
    )
    identifier = str(record.get("id", key))
    return Entry(audio, text.strip(), identifier, spoken, speaker, gender, accent)


def _json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(archive.content(path) or b"")
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise UserError(f"{path}: not a JSON object")
    return record
