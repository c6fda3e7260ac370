"""`asr score-alignment`: compare the word times of two files or folders."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from asr.errors import UserError, warn
from asr.render.tables import text_table
from asr.results import Span
from asr.scoring.timed_files import read_timed_words
from asr.scoring.word_times import COLLARS, NEAR, Distances, WordTimeScores, score_word_times
from asr.text.normalize import normalize

Recordings = dict[str, list[Span]]


def run(reference: Path, hypothesis: Path, as_json: bool) -> int:
    """Print how far the word times of a hypothesis are from those of a reference; return 0.

    Each is a file, or a folder of them. Words are normalised to lower-case a to z. If both hold one
    recording, its names may differ.

    Raises:
        UserError: a file cannot be read, or the files have no recording in common.
    """
    true, found = (_normalized(_recordings(path)) for path in (reference, hypothesis))
    if len(true) == len(found) == 1:
        found = dict(zip(true, found.values(), strict=True))
    missing = [name for name in true if name not in found]
    if len(missing) == len(true):
        raise UserError(f"{hypothesis} has no recording of {reference}: the names must agree")
    if missing:
        warn(f"{hypothesis}: {len(missing)} recordings are missing, the first is {missing[0]}")
    scores = score_word_times(true, found)
    if as_json:
        print(json.dumps({**asdict(scores), "near_ms": NEAR, "f1_ms": COLLARS}, indent=1))
        return 0
    print(_report(scores))
    return 0


def _recordings(path: Path) -> Recordings:
    found = read_timed_words(path)
    if not found:
        raise UserError(f"{path}: no words in it")
    return found


def _normalized(recordings: Recordings) -> Recordings:
    """Return the recordings with bare words; those that hold none, or several, are left out."""
    return {
        name: [
            word._replace(text=bare)
            for word in words
            if (bare := normalize(word.text)) and " " not in bare
        ]
        for name, words in recordings.items()
    }


def _report(scores: WordTimeScores) -> str:
    head = f"{scores.reference} words in the reference, {scores.hypothesis} in the hypothesis, "
    head += f"{scores.same} the same"
    header = ("", "mean", "median", "signed", *(f"<= {each} ms, %" for each in NEAR))
    sides = (("starts", scores.starts), ("ends", scores.ends), ("both", scores.both))
    table = text_table(header, [_row(name, side) for name, side in sides if side], digits=1)
    f1 = [f"within {each} ms {share:.1f}" for each, share in zip(COLLARS, scores.f1, strict=True)]
    unit = "Distances in ms; signed: positive if the hypothesis is later."
    return f"{head}\n\n{table}\n\nF1 of words, %: {', '.join(f1)}\n{unit}"


def _row(name: str, side: Distances) -> tuple[str | float, ...]:
    return (name, side.mean, side.median, side.signed, *side.near)
