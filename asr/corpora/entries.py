"""Recordings with their texts, as other tools list them, and manifests made from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from asr.audio import archive
from asr.audio.read import SAMPLE_RATE, Waveform, read
from asr.corpora.left_out import EMPTY, MISSING, LeftOut
from asr.corpora.manifest import Utterance, audio_duration, write_manifest
from asr.errors import UserError
from asr.text.normalize import normalize

ENDINGS: Final = (".wav", ".flac", ".mp3", ".ogg", ".opus")  # tried where a name has none


class Entry(NamedTuple):
    """An utterance of another tool's list.

    id: None makes it from the audio. written: what was said, as written; spoken: the same with
    numbers and abbreviations spelt out, None if not known. start, end: seconds in the recording;
    None for its own start and end. line: of the list, for messages.
    """

    audio: Path
    written: str
    id: str | None = None
    spoken: str | None = None
    speaker: str | None = None
    gender: str | None = None
    accent: str | None = None
    start: float | None = None
    end: float | None = None
    line: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether it is a part of its recording."""
        return self.start is not None or self.end is not None


def write_entries(
    manifest: Path, entries: Sequence[Entry], source: Path, advice: str = ""
) -> list[LeftOut]:
    """Write the manifest of entries and return what it lacks: recordings that cannot be used.

    These are missing or damaged ones, parts outside their recording, and those without a text.
    Parts of recordings are written as FLAC files next to the manifest, into a folder with its name.
    source: where the entries come from, and advice: where no recording exists; for messages.

    Raises:
        UserError: there are no entries, two have one id, or none of the recordings can be used.
    """
    if not entries:
        raise UserError(f"{source}: no utterances in it")
    missing = sorted({each.audio for each in entries if not archive.is_there(each.audio)})
    left_out = [LeftOut(each, MISSING) for each in missing]
    absent = set(missing)
    kept = [each for each in entries if each.audio not in absent]
    if not kept:
        raise UserError(
            f"{source}: none of its recordings exist: looked for {missing[0].absolute()}{advice}"
        )
    empty = [each for each in kept if not (each.spoken or each.written).strip()]
    left_out += [LeftOut(each.audio, EMPTY) for each in empty]
    kept = [each for each in kept if (each.spoken or each.written).strip()]
    _require_distinct(kept, source)
    utterances, unusable = _utterances(kept, manifest.with_suffix(""))
    left_out += unusable
    if not utterances:
        raise UserError(f"{source}: no recording can be used, such as {left_out[-1]}")
    write_manifest(manifest, utterances)
    return left_out


def found_audio(folder: Path, name: str) -> Path:
    """Return the path of a recording that a list names, with or without its ending."""
    path = folder / name
    if path.is_file():
        return path
    tried = (path.with_name(path.name + ending) for ending in ENDINGS)
    return next((each for each in tried if each.is_file()), path)


def path_id(audio: Path, folder: Path) -> str:
    """Return the id of a recording: its path in the folder without its ending, or its name."""
    inside = audio.relative_to(folder) if audio.is_relative_to(folder) else Path(audio.name)
    return inside.with_suffix("").as_posix()


def _identifier(entry: Entry) -> str:
    return entry.id or entry.audio.stem


def _require_distinct(entries: Sequence[Entry], source: Path) -> None:
    seen: dict[str, Entry] = {}
    for entry in entries:
        identifier = _identifier(entry)
        first = seen.setdefault(identifier, entry)
        if first is entry:
            continue
        if entry.line is None:
            raise UserError(f"{source}: the id {identifier!r} occurs twice; ids must be unique")
        raise UserError(
            f"{source}:{entry.line}: the id {identifier!r} is already used in line {first.line}; "
            "ids must be unique"
        )


def _utterances(entries: Sequence[Entry], folder: Path) -> tuple[list[Utterance], list[LeftOut]]:
    """Return utterances and what cannot be used; folder: of the parts of recordings."""
    cut, left_out = _cut_parts(entries, folder)
    utterances = []
    for place, entry in enumerate(entries):
        if entry.is_part and place not in cut:
            continue
        try:
            audio, seconds = cut[place] if entry.is_part else _whole(entry.audio)
        except UserError as error:
            left_out.append(LeftOut(entry.audio, str(error)))
            continue
        utterance = Utterance(
            id=_identifier(entry),
            audio=audio,
            text=normalize(entry.written if entry.spoken is None else entry.spoken),
            duration=seconds,
            speaker=entry.speaker,
            gender=entry.gender,
            accent=entry.accent,
            written=entry.written,
        )
        utterances.append(utterance)
    return utterances, left_out


def _whole(audio: Path) -> tuple[Path, float]:
    return audio, audio_duration(audio)


def _cut_parts(
    entries: Sequence[Entry], folder: Path
) -> tuple[dict[int, tuple[Path, float]], list[LeftOut]]:
    """Write the parts of recordings, each of which is read once.

    Returns file and seconds of each by its place, and what cannot be used. The files are numbered:
    an id need not be the name of a file.
    """
    places = [place for place, each in enumerate(entries) if each.is_part]
    found: dict[int, tuple[Path, float]] = {}
    left_out: list[LeftOut] = []
    places.sort(key=lambda place: entries[place].audio)
    for audio, its in groupby(places, lambda place: entries[place].audio):
        try:
            waveform = read(audio)
        except UserError as error:
            left_out.append(LeftOut(audio, str(error)))
            continue
        for place in its:
            try:
                samples = _part(entries[place], waveform)
            except UserError as error:
                left_out.append(LeftOut(audio, str(error)))
                continue
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{place:06d}.flac"
            soundfile.write(file, samples, SAMPLE_RATE, subtype="PCM_16")
            found[place] = file, len(samples) / SAMPLE_RATE
    return found, left_out


def _part(entry: Entry, waveform: Waveform) -> NDArray[np.float32]:
    """Return the samples (S,) of a part of a recording."""
    start = entry.start or 0.0
    end = waveform.duration if entry.end is None else entry.end
    first, last = (
        round(each * SAMPLE_RATE) if math.isfinite(each) else -1 for each in (start, end)
    )
    # Lists round their times: a part may end a tenth of a second after its recording.
    if not 0 <= first < last <= len(waveform.samples) + 0.1 * SAMPLE_RATE:
        raise UserError(
            f"{entry.audio}: {_identifier(entry)} is {entry.start} to {entry.end} s of it, but it "
            f"has {waveform.duration:.2f} s"
        )
    return waveform.samples[first:last]
