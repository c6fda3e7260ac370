"""What in a manifest is allowed, but often a mistake: warnings, where `check_manifest` has errors.

Each is one sentence on all utterances that it concerns, with an example.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from asr.audio import archive
from asr.corpora.manifest import Utterance
from asr.text.normalize import normalize

LONGEST_TRAINED: Final = 20.0  # s; longer utterances are left out of training (`data.longest`)
SLOWEST: Final = 1.0  # characters a second; slow readers with pauses have more than 5
SLOW_FROM: Final = 5.0  # s of audio; shorter ones may be one word with silence around it
SHOWN: Final = 8  # most dropped characters that are shown
_SIGNS: Final = frozenset("§¶†‡‰")  # punctuation by Unicode, but read aloud


def remarks(utterances: Sequence[Utterance]) -> Iterator[str]:
    """Yield the warnings on the utterances of one manifest or several."""
    empty = [each for each in utterances if not (each.written or each.text).strip()]
    if empty:
        yield f"{_count(empty)} with an empty text, which means that nobody speaks"
    slow = [
        each
        for each in utterances
        if each.duration >= SLOW_FROM and 0 < len(each.text) < SLOWEST * each.duration
    ]
    if slow:
        yield (
            f"{_count(slow)} with less than {SLOWEST:g} character of text a second of audio "
            f"({len(slow[0].text)} in {slow[0].duration:.1f} s): is text missing?"
        )
    if long := [each for each in utterances if each.duration > LONGEST_TRAINED]:
        yield f"{_count(long)} above {LONGEST_TRAINED:g} s, left out of training"
    yield from _dropped(utterances)
    if same := same_recordings(utterances):
        first, second = same[0]
        yield (
            f"{_recordings(same)} that {'occurs' if len(same) == 1 else 'occur'} twice, byte for "
            f"byte, such as {second.audio} as {first.id!r} and {second.id!r}"
        )


def shared_recordings(train: Sequence[Utterance], dev: Sequence[Utterance]) -> str:
    """Return a warning if recordings of a dev set are trained on, byte for byte; else ""."""
    names = {id(each) for each in dev}
    both = [
        pair
        for pair in same_recordings([*train, *dev])
        if (id(pair[0]) in names) != (id(pair[1]) in names)
    ]
    if not both:
        return ""
    first, second = both[0]
    return (
        f"{_recordings(both)} to validate on {'is' if len(both) == 1 else 'are'} also trained on, "
        "byte for byte, such as "
        f"{second.audio} as {first.id!r} and {second.id!r}: the figures are too good"
    )


def same_recordings(utterances: Sequence[Utterance]) -> list[tuple[Utterance, Utterance]]:
    """Return each utterance whose audio is that of an earlier one, byte for byte, after that one.

    Only those of one size are read.

    Raises:
        UserError: an archive cannot be read.
    """
    sizes = [archive.size(each.audio) for each in utterances]
    frequent = Counter(sizes)
    first: dict[str, Utterance] = {}
    found = []
    for utterance, size in zip(utterances, sizes, strict=True):
        if size is not None and frequent[size] > 1:
            earlier = first.setdefault(_digest(utterance.audio), utterance)
            if earlier is not utterance:
                found.append((earlier, utterance))
    return found


def _dropped(utterances: Sequence[Utterance]) -> Iterator[str]:
    """Yield a warning if normalisation drops letters and signs that are read aloud.

    A text whose normalised form is given in the manifest (`norm`) is as its author wants it.
    """
    counts: Counter[str] = Counter()
    concerned = []
    for utterance in utterances:
        written = utterance.written or ""
        lost = [each for each in written if _is_dropped(each)]
        if lost and utterance.text.strip() and utterance.text == normalize(written):
            counts.update(lost)
            concerned.append(utterance)
    if concerned:
        shown = " ".join(character for character, _ in counts.most_common(SHOWN))
        yield (
            f"{counts.total()} characters that the model cannot write are dropped from the texts "
            f"({shown}): {_count(concerned)}"
        )


@lru_cache(maxsize=4096)
def _is_dropped(character: str) -> bool:
    """Return whether nothing is left of a letter, a number or a sign that is read aloud."""
    category = unicodedata.category(character)
    is_spoken = category[0] in "LN" or category in ("So", "Sm") or character in _SIGNS
    return is_spoken and not character.isascii() and not normalize(character)


def _count(utterances: Sequence[Utterance]) -> str:
    noun = "utterance" if len(utterances) == 1 else "utterances"
    return f"{len(utterances)} {noun}, such as {utterances[0].id!r}"


def _recordings(pairs: Sequence[tuple[Utterance, Utterance]]) -> str:
    return "1 recording" if len(pairs) == 1 else f"{len(pairs)} recordings"


def _digest(audio: Path) -> str:
    member = archive.content(audio)
    if member is not None:
        return hashlib.sha256(member).hexdigest()
    with audio.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
