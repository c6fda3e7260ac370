"""Measure what it costs to cut speech that has no pauses.

    python benchmarks/cuts.py MANIFEST --ids FILE [--minutes N] [--seed N] [--model MODEL]

Utterances are trimmed to their words (aligned by the model), pauses between words are shortened to
a quarter of a second, and all is joined. Greedy search decodes the recording as `asr transcribe`
cuts it, cut between utterances, and cut every 15 s whatever is there.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import jiwer
import numpy as np
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE, read
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.cutting import pieces_for
from asr.inference.decoding import decode_many
from asr.inference.pieces import Piece, piece_of
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table
from asr.results import Word

EDGE = 0.03  # seconds kept before the first and after the last word of an utterance
PAUSE = 0.24  # seconds that are left of longer pauses
LONGEST = 20.0  # seconds of a piece
EVERY = 15.0  # seconds between cuts that ignore the speech

Samples = NDArray[np.float32]


def without_pauses(samples: Samples, words: Sequence[Word]) -> Samples:
    """Return samples (S,) at 16 kHz without the silence around words, and with short pauses."""
    kept, start = [], max(0.0, words[0].start - EDGE)
    for word, following in pairwise(words):
        if following.start - word.end > PAUSE:
            kept.append((start, word.end + PAUSE / 2))
            start = following.start - PAUSE / 2
    kept.append((start, words[-1].end + EDGE))
    return np.concatenate(
        [samples[round(a * SAMPLE_RATE) : round(b * SAMPLE_RATE)] for a, b in kept]
    )


def between(edges: Sequence[float]) -> list[float]:
    """Return times to cut at, from 0 to the end: the last edge (seconds) within `LONGEST`."""
    times = [0.0]
    while times[-1] < edges[-1]:
        near = [edge for edge in edges if times[-1] < edge <= times[-1] + LONGEST]
        times.append(max(near) if near else min(times[-1] + LONGEST, edges[-1]))
    return times


def cut(samples: Samples, times: Sequence[float]) -> list[Piece]:
    """Cut samples at times in seconds."""
    places = [round(time * SAMPLE_RATE) for time in times]
    return [piece_of(samples[start:end], start / SAMPLE_RATE) for start, end in pairwise(places)]


def joined(
    recognizer: Recognizer, utterances: Sequence[Utterance], minutes: float, seed: int
) -> Iterator[tuple[Samples, str]]:
    """Yield utterances in random order, without pauses, and their texts, up to some minutes."""
    total = 0
    for index in np.random.default_rng(seed).permutation(len(utterances)):
        utterance = utterances[index]
        samples = read(utterance.audio).samples
        words = recognizer.align(samples, utterance.text, rate=SAMPLE_RATE).words
        spoken = without_pauses(samples, words)
        yield spoken, utterance.text
        total += len(spoken)
        if total > minutes * 60 * SAMPLE_RATE:
            return


def main() -> None:
    """Read the arguments, make the recording, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what cuts in speech cost.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, metavar="FILE", help="use only these utterances")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--model", default="english")
    given = parser.parse_args()
    utterances = read_manifest(given.manifest)
    if given.ids is not None:
        utterances = select(utterances, given.ids)
    recognizer = Recognizer.load(given.model).configured(beam=1)
    parts, texts = zip(*joined(recognizer, utterances, given.minutes, given.seed), strict=True)
    samples = np.concatenate(parts)
    edges = (np.cumsum([len(part) for part in parts]) / SAMPLE_RATE).tolist()
    found = {
        "as asr transcribe does": [*pieces_for(recognizer.loaded, [samples], LONGEST)],
        "between utterances": cut(samples, between(edges)),
        f"every {EVERY:g} s": cut(samples, [*np.arange(0, edges[-1] - 1, EVERY), edges[-1]]),
    }
    rows = []
    for name, some in found.items():
        segments = decode_many(recognizer.loaded, some, recognizer.decoding)
        text = " ".join(word.text for segment in segments for word in segment.words)
        rows.append((name, len(some), f"{100 * jiwer.wer(' '.join(texts), text):.1f}"))
    words = sum(len(text.split()) for text in texts)
    print(f"{words} words in {edges[-1]:.0f} s, seed {given.seed}")
    print(text_table(("cut", "pieces", "WER %"), rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
