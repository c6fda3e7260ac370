"""Manifests: lists of recordings with their transcripts.

A manifest is a text file with one JSON object a line (JSON Lines, UTF-8):

    {"audio": "a/1.flac", "text": "Good morning!", "id": "a-1", "speaker": "a", "duration": 2.31}

`audio` and `text` are required. `audio` is absolute or relative to the folder of the manifest, and
lies in this folder, or in another that the reader of the manifest allows. `text` is the original
transcript; `"text": ""` means that there is no speech (noise, silence). Optional keys:
`norm` (the normalised text, for training and scoring; default: `text`, normalised), `id` (default:
the audio path without its extension), `duration` (s; default: read from the audio), `speaker`,
`gender` and `accent`. Other keys are ignored.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asr.audio import archive
from asr.audio.read import read, stated_seconds
from asr.checksums import write_whole
from asr.errors import UserError
from asr.text.lines import Line, read_entries
from asr.text.normalize import normalize

ROOM: Final = "room-impulse-response"  # label of impulse responses among noise recordings
EMPTY: Final = "got an empty manifest, wanted at least one utterance"
ANYWHERE: Final = Path(os.sep)  # audio may lie there: for manifests that were just written


@dataclass(frozen=True)
class Utterance:
    """A recording and its transcript.

    id        unique within a manifest
    audio     the file
    text      normalised, for training and scoring; "" if there is no speech
    duration  s
    speaker   None if not known
    gender    as in the corpus ("F", "M"), None if not known
    accent    as in the corpus, None if not known
    written   the original text, None if only the normalised one is known
    """

    id: str
    audio: Path
    text: str
    duration: float
    speaker: str | None = None
    gender: str | None = None
    accent: str | None = None
    written: str | None = None


def read_manifest(path: str | Path, audio_in: Path | None = None) -> list[Utterance]:
    """Read the utterances of a manifest, in its order.

    audio_in: the folder that all audio must lie in; None means that of the manifest. Links are not
    followed: one in this folder may lead out of it.

    Audio is opened only if a line has no duration. Raises UserError, with file and line, for a file
    that cannot be read, a folder or a table, invalid JSON, missing keys, values of a wrong type,
    audio outside `audio_in`, a repeated id and an empty manifest.
    """
    path = Path(path)
    utterances: list[Utterance] = []
    for number, found in scan(path, audio_in):
        if isinstance(found, UserError):
            raise UserError(f"{path}:{number}: {found}") from found
        utterances.append(found)
    if not utterances:
        raise UserError(f"{path}: {EMPTY}")
    return utterances


def scan(path: Path, audio_in: Path | None = None) -> Iterator[tuple[int, Utterance | UserError]]:
    """Yield the number of each line, from 1, and its utterance, or what is wrong with the line.

    audio_in: see `read_manifest`. Raises UserError if the file cannot be read.
    """
    first_line: dict[str, int] = {}
    for number, line in _lines(path):
        try:
            utterance = _parse(line, path.parent, audio_in)
            _require_new(utterance.id, number, first_line)
        except UserError as error:
            yield number, error
        else:
            yield number, utterance


def write_manifest(path: str | Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest from which `read_manifest` restores the utterances.

    Exception: `written`, if None, is restored as the normalised text. Audio below the folder of the
    manifest is written as a relative path, so that both can be moved together; other audio as an
    absolute path. An existing file is replaced atomically.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    records = (_record(utterance, path.parent) for utterance in utterances)
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in records]
    write_whole(path, "".join(lines).encode())


def select(utterances: Iterable[Utterance], ids_file: str | Path) -> list[Utterance]:
    """Return the utterances with the ids of a file, in the order of the file.

    ids_file: one id a line; blank lines and lines that begin with `#` are ignored.
    Raises UserError if an id is listed twice or belongs to no utterance, or if none is listed.
    """
    ids_file = Path(ids_file)
    by_id = {utterance.id: utterance for utterance in utterances}
    chosen: list[Utterance] = []
    first_line: dict[str, int] = {}
    for number, identifier in read_entries(ids_file, comment="#"):
        try:
            _require_new(identifier, number, first_line)
        except UserError as error:
            raise UserError(f"{ids_file}:{number}: {error}") from error
        if identifier not in by_id:
            raise UserError(
                f"{ids_file}:{number}: got the id {identifier!r}, wanted one of the manifest's "
                f"{len(by_id)}; is this the list of another corpus?"
            )
        chosen.append(by_id[identifier])
    if not chosen:
        raise UserError(f"{ids_file}: got no ids, wanted one a line")
    return chosen


def audio_duration(audio: Path) -> float:
    """Return the duration in s from the header; if it is not stated, by decoding.

    Raises UserError if the file is missing or is not audio that can be decoded.
    """
    if not archive.is_there(audio):
        raise UserError(f"no such audio file: {audio}")
    # Without a header, ffmpeg may support the format; otherwise reading raises.
    stated = stated_seconds(audio)
    return read(audio).duration if stated is None else stated


def _lines(path: Path) -> Iterator[Line]:
    """Read the lines of a manifest; refuse a folder or a table, of which one must be made first."""
    table = "table" if path.suffix.lower() in (".csv", ".tsv") else None
    if kind := "folder" if path.is_dir() else table:
        raise UserError(
            f"{path}: a {kind}; wanted a manifest: asr prepare {kind} {path} mine.jsonl"
        )
    yield from read_entries(path)


def _parse(line: str, folder: Path, audio_in: Path | None) -> Utterance:
    """Parse a line; the caller adds the position to a UserError."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"got broken JSON ({error}), wanted one object a line") from error
    if not isinstance(record, dict):
        raise UserError(f"got {line[:40]!r}, wanted a JSON object in braces")
    audio_name, written = _string(record, "audio"), _string(record, "text")
    if audio_name is None or written is None:
        missing = "audio" if audio_name is None else "text"
        raise UserError(f'key "{missing}" is missing; "audio" and "text" are required')
    if not audio_name:
        raise UserError('got "audio": "", wanted the path of a file')
    normalised = _string(record, "norm")
    audio = folder / audio_name
    _require_inside(audio, folder if audio_in is None else audio_in)
    duration = _duration(record)
    return Utterance(
        id=_string(record, "id") or Path(audio_name).with_suffix("").as_posix(),
        audio=audio,
        text=normalize(written) if normalised is None else normalised,
        duration=audio_duration(audio) if duration is None else duration,
        speaker=_string(record, "speaker") or None,
        gender=_string(record, "gender") or None,
        accent=_string(record, "accent") or None,
        written=written,
    )


def _require_inside(audio: Path, folder: Path) -> None:
    if not is_inside(audio, folder):
        raise UserError(
            f"audio outside of {folder}: {audio}; to allow another folder: --audio-in DIR, or "
            "data.audio_in in a config"
        )


def is_inside(audio: Path, folder: Path) -> bool:
    """Return whether the path of a file lies in a folder; links are not followed."""
    return Path(os.path.abspath(audio)).is_relative_to(os.path.abspath(folder))


def _string(record: dict[str, Any], key: str) -> str | None:
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    raise UserError(f'got {json.dumps(value)[:40]} for "{key}", wanted a string in quotes')


def _duration(record: dict[str, Any]) -> float | None:
    value = record.get("duration")
    if value is None:
        return None
    # bool is a subclass of int; Python's JSON reader accepts NaN and Infinity.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UserError(f'got {json.dumps(value)[:40]} for "duration", wanted seconds above 0')
    return float(value)


def _require_new(identifier: str, number: int, first_line: dict[str, int]) -> None:
    """Record the line of an id; raise UserError if the id is repeated."""
    if identifier in first_line:
        raise UserError(f"id {identifier!r} is already used in line {first_line[identifier]}")
    first_line[identifier] = number


def _record(utterance: Utterance, folder: Path) -> dict[str, Any]:
    audio = Path(os.path.abspath(utterance.audio))
    if is_inside(audio, folder):
        audio = audio.relative_to(os.path.abspath(folder))
    record: dict[str, Any] = {
        "id": utterance.id,
        "audio": audio.as_posix(),
        "text": utterance.text if utterance.written is None else utterance.written,
        "norm": utterance.text,
        "duration": utterance.duration,
    }
    if utterance.speaker is not None:
        record["speaker"] = utterance.speaker
    if utterance.gender is not None:
        record["gender"] = utterance.gender
    if utterance.accent is not None:
        record["accent"] = utterance.accent
    return record


def read_noise(path: str | Path, audio_in: Path | None = None) -> list[Utterance]:
    """Read a manifest of recordings without speech: as `read_manifest`, but `text` is optional.

    The text of each utterance is "", even if the line has one. Lines with the label `ROOM` are left
    out: see `read_responses`.
    """
    found = scan_noise(Path(path), audio_in)
    return [noise for _, noise, label in found if label != ROOM]


def read_responses(path: str | Path, audio_in: Path | None = None) -> list[Path]:
    """Return the audio files with the label `ROOM` of a manifest of noise."""
    found = scan_noise(Path(path), audio_in)
    return [response.audio for _, response, label in found if label == ROOM]


def scan_noise(path: Path, audio_in: Path | None) -> Iterator[tuple[int, Utterance, str]]:
    """Yield the number of each line, its utterance, with an empty text, and its label.

    audio_in: see `read_manifest`. Raises UserError for what `read_manifest` refuses.
    """
    number = 0
    first_line: dict[str, int] = {}
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            found = _parse(json.dumps({**record, "text": "", "norm": ""}), path.parent, audio_in)
            _require_new(found.id, number, first_line)
        except (UserError, ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{path}:{number}: {error}") from error
        yield number, found, str(record.get("label", ""))
    if number == 0:
        raise UserError(f"{path}: got an empty manifest, wanted at least one recording")
