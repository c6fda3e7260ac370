"""Data folders of Kaldi: text, wav.scp, and if there are any segments, utt2spk and spk2gender."""

from __future__ import annotations

from pathlib import Path

from asr.corpora.entries import Entry
from asr.errors import UserError
from asr.text.lines import read_entries


def read_kaldi(folder: Path) -> list[Entry]:
    """Read a data folder; paths in wav.scp are relative to the current folder, as in Kaldi.

    Raises:
        UserError: a file cannot be read, an utterance has no recording, a time is no number, or a
            recording is the output of a command.
    """
    audio = {name: _audio(folder, name, path) for name, path in _table(folder / "wav.scp").items()}
    texts = _table(folder / "text")
    parts = _table(folder / "segments") if (folder / "segments").exists() else {}
    speakers = _table(folder / "utt2spk") if (folder / "utt2spk").exists() else {}
    genders = _table(folder / "spk2gender") if (folder / "spk2gender").exists() else {}
    entries = []
    for name, text in texts.items():
        recording, start, end = name, None, None
        if parts:
            recording, start, end = _part(folder, name, parts)
        if recording not in audio:
            raise UserError(f"{folder / 'wav.scp'}: no recording {recording!r}, which text names")
        speaker = speakers.get(name)
        gender = genders.get(speaker) if speaker else None
        entries.append(
            Entry(
                audio[recording],
                text,
                id=name,
                speaker=speaker,
                gender=gender and gender.upper(),
                start=start,
                end=end,
            )
        )
    return entries


def _table(path: Path) -> dict[str, str]:
    """Return the lines of a file as the first word and the rest."""
    lines = (line.text.split(None, 1) for line in read_entries(path))
    return {name: rest[0] if rest else "" for name, *rest in lines}


def _audio(folder: Path, name: str, path: str) -> Path:
    if path.endswith("|"):
        raise UserError(
            f"{folder / 'wav.scp'}: {name} is the output of a command, which is not run; write the "
            "recordings as files and name them"
        )
    return Path(path)


def _part(folder: Path, name: str, parts: dict[str, str]) -> tuple[str, float, float | None]:
    """Return the recording of an utterance, its start and its end; −1 is the end of it."""
    try:
        recording, start, end = parts[name].split()[:3]
        seconds = float(start), float(end)
    except (KeyError, ValueError):
        got = f"{name} {parts[name]}" if name in parts else f"nothing for {name}"
        raise UserError(
            f"{folder / 'segments'}: got {got!r}, wanted utterance recording start end"
        ) from None
    return recording, seconds[0], None if seconds[1] == -1 else seconds[1]
