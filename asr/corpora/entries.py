"""Recordings with their texts, as other tools list them, and manifests made from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE, Waveform, read
from asr.corpora.manifest import Utterance, audio_duration, write_manifest
from asr.errors import UserError
from asr.text.normalize import normalize

ENDINGS: Final = (".wav", ".flac", ".mp3", ".ogg", ".opus")  # tried where a name has none


class Entry(NamedTuple):
    """An utterance of another tool's list.

    id: None makes it from the audio. written: what was said, as written; spoken: the same with
    numbers and abbreviations spelt out, None if not known. start, end: seconds in the recording;
    None for its own start and end.
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

    @property
    def is_part(self) -> bool:
        """Whether it is a part of its recording."""
        return self.start is not None or self.end is not None


def write_entries(manifest: Path, entries: Sequence[Entry], source: Path) -> list[Path]:
    """Write the manifest of entries and return the recordings that are missing, which it lacks.

    Parts of recordings are written as FLAC files next to the manifest, into a folder with its name.
    source: where the entries come from, for messages.

    Raises:
        UserError: there are no entries, none of the recordings exist, two entries have one id, a
            part lies outside its recording, or a file cannot be read.
    """
    if not entries:
        raise UserError(f"{source}: no utterances in it")
    missing = sorted({each.audio for each in entries if not each.audio.is_file()})
    left_out = set(missing)
    kept = [each for each in entries if each.audio not in left_out]
    if not kept:
        raise UserError(f"{source}: none of its recordings exist, such as {missing[0]}")
    _require_distinct(kept, source)
    write_manifest(manifest, _utterances(kept, manifest.with_suffix("")))
    return missing


def found_audio(folder: Path, name: str) -> Path:
    """Return the path of a recording that a list names, with or without its ending."""
    path = folder / name
    if path.is_file():
        return path
    tried = (path.with_name(path.name + ending) for ending in ENDINGS)
    return next((each for each in tried if each.is_file()), path)


def _identifier(entry: Entry) -> str:
    return entry.id or entry.audio.stem


def _require_distinct(entries: Sequence[Entry], source: Path) -> None:
    seen: set[str] = set()
    for entry in entries:
        identifier = _identifier(entry)
        if identifier in seen:
            raise UserError(f"{source}: the id {identifier!r} occurs twice; ids must be unique")
        seen.add(identifier)


def _utterances(entries: Sequence[Entry], folder: Path) -> Iterator[Utterance]:
    """Yield utterances; folder: of the parts of recordings, each of which is read once."""
    cut = _cut_parts(entries, folder)
    for place, entry in enumerate(entries):
        whole = entry.audio
        audio, seconds = cut[place] if entry.is_part else (whole, audio_duration(whole))
        yield Utterance(
            id=_identifier(entry),
            audio=audio,
            text=normalize(entry.written if entry.spoken is None else entry.spoken),
            duration=seconds,
            speaker=entry.speaker,
            gender=entry.gender,
            accent=entry.accent,
            written=entry.written,
        )


def _cut_parts(entries: Sequence[Entry], folder: Path) -> dict[int, tuple[Path, float]]:
    """Write the parts of recordings; return file and seconds of each by its place.

    The files are numbered: an id need not be the name of a file.
    """
    places = [place for place, each in enumerate(entries) if each.is_part]
    found: dict[int, tuple[Path, float]] = {}
    if places:
        folder.mkdir(parents=True, exist_ok=True)
    places.sort(key=lambda place: entries[place].audio)
    for audio, its in groupby(places, lambda place: entries[place].audio):
        waveform = read(audio)
        for place in its:
            samples = _part(entries[place], waveform)
            file = folder / f"{place:06d}.flac"
            soundfile.write(file, samples, SAMPLE_RATE, subtype="PCM_16")
            found[place] = file, len(samples) / SAMPLE_RATE
    return found


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
