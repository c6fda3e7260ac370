"""Tables of recordings and texts: CSV, TSV, Common Voice, and the layout of LJSpeech."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from asr.corpora.entries import Entry, found_audio, path_id
from asr.errors import UserError
from asr.text.lines import read_lines

DELIMITERS: Final = ("\t", ",", ";", "|")
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(  # field → names of its column
    {
        "audio": ("audio", "path", "file", "filename", "file_name", "wav", "wav_filename"),
        "written": ("text", "sentence", "transcript", "transcription"),
        "id": ("id", "utterance_id", "utt_id"),
        "spoken": ("norm", "normalized_text"),
        "speaker": ("speaker", "speaker_id", "client_id", "spk"),
        "gender": ("gender", "sex"),
        "accent": ("accent", "accents"),
    }
)


def read_table(path: Path, folder: Path | None = None) -> list[Entry]:
    """Read a table with a header; see `COLUMNS` for the names of its columns.

    folder: that the audio is relative to; None takes the folder of the table.

    Raises:
        UserError: the file cannot be read, has no column of audio or text, or a row has too few
            or too many columns.
    """
    folder = path.parent if folder is None else folder
    rows = _rows(path)
    header = next(rows, (0, []))[1]
    places = _places(path, header)
    entries = []
    for number, row in rows:
        _require_as_many(path, number, row, header)
        fields = {name: row[place].strip() or None for name, place in places.items()}
        audio, written = fields.pop("audio"), fields.pop("written")
        if not audio:
            raise UserError(f"{path}:{number}: the column {header[places['audio']]!r} is empty")
        recording = found_audio(folder, audio)
        entries.append(
            Entry(
                recording,
                written or "",
                id=fields.get("id") or path_id(recording, folder),
                spoken=fields.get("spoken"),
                speaker=fields.get("speaker"),
                gender=fields.get("gender"),
                accent=fields.get("accent"),
                line=number,
            )
        )
    return entries


def _require_as_many(path: Path, number: int, row: list[str], header: list[str]) -> None:
    """Refuse a row with another number of columns than the header; empty ones at its end may be."""
    if len(row) < len(header) or any(each.strip() for each in row[len(header) :]):
        advice = "; a text with a separator in it needs quotation marks around it"
        raise UserError(
            f"{path}:{number}: got {len(row)} columns, wanted {len(header)}"
            f"{advice if len(row) > len(header) else ''}"
        )


def read_common_voice(folder: Path, table: str) -> list[Entry]:
    """Read a table of a release of Common Voice: folder/TABLE and folder/clips.

    Raises:
        UserError: the folder is a file, or as `read_table`.
    """
    if folder.is_file():
        raise UserError(
            f"{folder}: a file; wanted the folder of the release: {folder.parent}, with "
            f"--table {folder.name}"
        )
    return read_table(folder / table, folder / "clips")


def read_ljspeech(folder: Path) -> list[Entry]:
    """Read the layout of LJSpeech: metadata.csv with id|text or id|text|spoken, and wavs/id.wav.

    Raises:
        UserError: the file cannot be read, or a line has no "|".
    """
    path = folder / "metadata.csv"
    entries = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        identifier, *texts = line.split("|")
        if not texts:
            raise UserError(f"{path}:{number}: got {line[:40]!r}, wanted id|text or id|text|spoken")
        spoken = texts[1] if len(texts) > 1 else None
        audio = found_audio(folder / "wavs", identifier)
        entries.append(Entry(audio, texts[0], id=identifier, spoken=spoken, line=number))
    return entries


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with their line numbers; the delimiter is the one of the header."""
    lines = (line.text for line in read_lines(path))
    first = next(lines, "")
    delimiter = max(DELIMITERS, key=first.count)
    if delimiter == "\t":  # Common Voice quotes nothing: a quotation mark is part of the sentence
        for number, line in enumerate([first, *lines], 1):
            if line.strip():
                yield number, line.split(delimiter)
        return
    reader = csv.reader((f"{line}\n" for line in [first, *lines]), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: {error}") from None


def _places(path: Path, header: list[str]) -> dict[str, int]:
    """Return the column of each field that the table has."""
    named = {name.strip().lower(): place for place, name in reversed([*enumerate(header)])}
    places = {
        field: next(named[name] for name in names if name in named)
        for field, names in COLUMNS.items()
        if any(name in named for name in names)
    }
    for field in ("audio", "written"):
        if field not in places:
            raise UserError(
                f"{path}: the first line must name the columns: got "
                f"{', '.join(header)[:80] or 'nothing'}; wanted one of {', '.join(COLUMNS[field])}"
            )
    return places
