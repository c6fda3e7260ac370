"""A dev set that is split off a manifest, by speakers where they are known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from asr.corpora.manifest import ANYWHERE, Utterance, read_manifest, write_manifest
from asr.errors import UserError

MOST: Final = 4.0  # times the wanted seconds that one speaker may have


class Split(NamedTuple):
    """Utterances to train on and to validate with; by_speaker: whether no speaker is in both."""

    train: list[Utterance]
    dev: list[Utterance]
    by_speaker: bool

    @property
    def how(self) -> str:
        """Whether speakers are on both sides, as a sentence."""
        if self.by_speaker:
            return "their speakers are not trained on"
        speakers = {each.speaker for each in (*self.train, *self.dev)}
        if None in speakers:
            return "speakers are not known: not every utterance names one"
        if len(speakers) == 1:
            return "their speaker is also trained on: there is one speaker"
        return "their speakers are also trained on: each has too much of the speech to hold out"


def split(utterances: Sequence[Utterance], share: float) -> Split:
    """Hold out about `share` of the seconds, and at least one utterance or speaker.

    If every utterance has a speaker and there are two or more, speakers are held out whole, unless
    each has more than `MOST` times as much. The order in which they are taken depends on their
    names alone.

    Raises:
        UserError: there are fewer than two utterances.
    """
    if len(utterances) < 2:
        raise UserError(f"got {len(utterances)} utterance; wanted two or more to hold one out")
    speakers = {each.speaker for each in utterances}
    by_speaker = None not in speakers and len(speakers) > 1
    wanted = share * sum(each.duration for each in utterances)
    names = [str(each.speaker) for each in utterances]
    if by_speaker and min(_seconds(names, utterances).values()) > MOST * wanted:
        by_speaker = False
    if not by_speaker:
        names = [each.id for each in utterances]
    held = _held_out(_seconds(names, utterances), wanted)
    return Split(
        [each for name, each in zip(names, utterances, strict=True) if name not in held],
        [each for name, each in zip(names, utterances, strict=True) if name in held],
        by_speaker,
    )


def _seconds(names: Sequence[str], utterances: Sequence[Utterance]) -> dict[str, float]:
    """Return the seconds of each name."""
    seconds: dict[str, float] = {}
    for name, each in zip(names, utterances, strict=True):
        seconds[name] = seconds.get(name, 0.0) + each.duration
    return seconds


def _held_out(seconds: dict[str, float], wanted: float) -> set[str]:
    """Choose names with about the wanted seconds: one at least, and not all."""
    order = sorted(seconds, key=lambda name: hashlib.sha256(name.encode()).digest())
    fitting = (name for name in order if seconds[name] <= MOST * wanted)
    first = next(fitting, min(order, key=seconds.__getitem__))
    held, total = {first}, seconds[first]
    for name in [name for name in order if name != first][:-1]:
        if total + seconds[name] / 2 <= wanted:
            held.add(name)
            total += seconds[name]
    return held


def split_off(manifest: Path, dev: Path, share: float) -> Split:
    """Move a part of a manifest to another one, `dev`; see `split`. Its audio may lie anywhere.

    Raises:
        UserError: both are one file, the manifest cannot be read, or it has one utterance.
    """
    if manifest.resolve() == dev.resolve():
        raise UserError(f"{dev}: the manifest itself; wanted another file for the dev set")
    found = split(read_manifest(manifest, ANYWHERE), share)
    write_manifest(dev, found.dev)
    write_manifest(manifest, found.train)
    return found
