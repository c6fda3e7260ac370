"""Manifests of lhotse: cuts, each with a recording and supervisions, read by the extra `lhotse`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from asr.corpora.entries import Entry
from asr.errors import UserError, install_command

ROUNDING: Final = 0.01  # seconds by which a supervision may miss the ends of its recording


def read_lhotse(path: Path) -> list[Entry]:
    """Read cuts (.jsonl or .jsonl.gz); audio paths are relative to the current folder, as there.

    Each supervision becomes one entry, a part of its recording if it does not cover the whole.

    Raises:
        UserError: lhotse is not installed, the file cannot be read or holds no cuts, or a cut is
            mixed, changed (speed, volume …) or not from a file, or is one of several channels.
    """
    try:
        from lhotse import CutSet  # imports torch
    except ImportError as error:
        install = install_command("lhotse")
        raise UserError(f"lhotse, which reads its manifests, is missing: {install}") from error
    cuts: list[Any] = []
    try:
        cuts.extend(CutSet.from_file(path))
    except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError) as error:
        wanted = "wanted the cuts of lhotse, one JSON object a line"
        reason = getattr(error, "strerror", None) or wanted
        raise UserError(f"{path}:{len(cuts) + 1}: {reason}") from error
    return [entry for line, cut in enumerate(cuts, 1) for entry in _entries(path, cut, line)]


def _entries(path: Path, cut: Any, line: int) -> Iterator[Entry]:
    """Yield the entries of a cut."""
    recording = getattr(cut, "recording", None)
    if recording is None:
        raise UserError(
            f"{path}:{line}: got a {type(cut).__name__}, wanted a cut of one recording (`lhotse "
            "cut simple` makes cuts of recordings and supervisions)"
        )
    sources = recording.sources
    if len(sources) != 1 or sources[0].type != "file" or recording.transforms:
        raise UserError(
            f"{path}:{line}: the recording {recording.id!r} is not one unchanged file; save its "
            "audio first (CutSet.save_audios)"
        )
    for each in cut.supervisions:
        if recording.num_channels > 1 and each.channel != recording.channel_ids:
            raise UserError(
                f"{path}:{line}: {each.id!r} is one of the {recording.num_channels} channels of "
                f"{recording.id!r}; save the channels as files first"
            )
        start = cut.start + each.start
        end = start + each.duration
        is_whole = start <= ROUNDING and end >= recording.duration - ROUNDING
        yield Entry(
            Path(sources[0].source),
            each.text or "",
            id=str(each.id),
            speaker=each.speaker,
            gender=each.gender,
            start=None if is_whole else max(0.0, start),
            end=None if is_whole else end,
            line=line,
        )
