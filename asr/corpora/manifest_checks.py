"""Checks of manifests and of their audio, before anything is made of them."""

from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import soundfile

from asr.audio.read import UNKNOWN_FRAMES
from asr.corpora.manifest import EMPTY, Utterance, audio_duration, scan, scan_noise
from asr.errors import UserError
from asr.text.segmentation import WORD_START
from asr.text.vocabulary import SPECIALS

CHARACTERS_PER_SECOND: Final = 25.0  # CTC emits at most one per 40 ms; fast readers reach 22
SHORTEST: Final = 0.1  # s; shorter than any word
LONGEST: Final = 120.0  # s; longer utterances do not fit into memory in training
TOLERANCE: Final = 0.1  # s, tolerated error of a stated duration or a header
SHOWN: Final = 5  # problems of a manifest that an error names


class Problem(NamedTuple):
    """An error in a line of a manifest; lines are counted from 1."""

    line: int
    what: str


def check_manifest(
    path: str | Path,
    symbols: Collection[str] | None = None,
    left_out: Collection[str] = (),
    audio_in: Path | None = None,
) -> list[Problem]:
    """Return all errors in a manifest and its audio, in the order of the lines.

    symbols: allowed in texts (`Vocabulary.inventory`); None allows all.
    left_out: ids of utterances that are not used; their audio and text are not checked.
    audio_in: see `read_manifest`.

    Every recording is opened and its end decoded, which detects missing, damaged and truncated
    files without decoding hours of audio. Raises UserError only if the manifest cannot be read.
    """
    path = Path(path)
    characters = None if symbols is None else _characters(symbols)
    problems: list[Problem] = []
    number = 0
    for number, found in scan(path, audio_in):
        if isinstance(found, UserError):
            problems.append(Problem(number, str(found)))
        elif found.id not in left_out:
            problems.extend(Problem(number, what) for what in _faults(found, characters))
    if number == 0:
        problems.append(Problem(1, EMPTY))
    return problems


def require_clean(
    path: str | Path,
    symbols: Collection[str] | None = None,
    left_out: Collection[str] = (),
    audio_in: Path | None = None,
) -> None:
    """Raise UserError if `check_manifest` finds errors, with their number and the first ones."""
    _require_none(path, check_manifest(path, symbols, left_out, audio_in))


def require_clean_noise(path: str | Path, audio_in: Path | None = None) -> None:
    """As `require_clean`, for a manifest without speech, whose recordings may have any length."""
    problems = [
        Problem(number, what)
        for number, found, _ in scan_noise(Path(path), audio_in)
        for what in _wrong_duration(found)
    ]
    _require_none(path, problems)


def _require_none(path: str | Path, problems: Sequence[Problem]) -> None:
    if not problems:
        return
    noun = "problem" if len(problems) == 1 else "problems"
    lines = [f"{path}: {len(problems)} {noun}; correct or remove these lines"]
    lines += [f"  {path}:{problem.line}: {problem.what}" for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"  and {len(problems) - SHOWN} more")
    raise UserError("\n".join(lines))


def _faults(utterance: Utterance, characters: frozenset[str] | None) -> Iterator[str]:
    """Yield the errors of an utterance that could be parsed."""
    duration = yield from _wrong_duration(utterance)
    if not SHORTEST <= duration <= LONGEST:
        yield f"{duration:.3f} s of audio, wanted {SHORTEST:g} to {LONGEST:g} s"
    if not utterance.text.strip() and utterance.written:
        yield f"the text {utterance.written[:40]!r} is empty after normalisation"
    if len(utterance.text) > CHARACTERS_PER_SECOND * duration:
        yield (
            f"{len(utterance.text)} characters in {duration:.2f} s of audio, more than "
            f"{CHARACTERS_PER_SECOND:g} a second: is this the text of another recording?"
        )
    strange = sorted(set(utterance.text) - characters) if characters is not None else []
    if strange:
        shown = " ".join(repr(character) for character in strange[:8])
        yield f"the text has characters outside the vocabulary: {shown}"


def _wrong_duration(utterance: Utterance) -> Generator[str, None, float]:
    """Yield the errors of the audio of an utterance, and return its duration in s."""
    try:
        duration = _checked_duration(utterance.audio)
    except UserError as error:
        yield str(error)
        return utterance.duration
    if abs(duration - utterance.duration) > TOLERANCE:
        yield f"duration is given as {utterance.duration:g} s, the audio has {duration:.3f} s"
    return duration


def _checked_duration(audio: Path) -> float:
    """Return the duration in s after decoding the end: the header of a cut file may be wrong."""
    duration = audio_duration(audio)
    try:
        sound = soundfile.SoundFile(str(audio))
    except (soundfile.SoundFileError, TypeError):
        return duration  # all of it was decoded: by ffmpeg, or out of an archive
    with sound:
        if sound.frames >= UNKNOWN_FRAMES:
            return duration
        try:
            sound.seek(max(0, sound.frames - int(TOLERANCE * sound.samplerate)))
            rest = sound.read(frames=1)
        except soundfile.SoundFileError as error:
            raise UserError(f"audio is cut off or damaged: {audio} ({error})") from None
        if len(rest) == 0:
            raise UserError(f"audio is cut off or empty: {audio}")
    return duration


def _characters(symbols: Collection[str]) -> frozenset[str]:
    """Return the characters of symbols (characters or subwords)."""
    spelt = "".join(symbol for symbol in symbols if symbol not in SPECIALS)
    return frozenset(spelt.replace(WORD_START, " "))
