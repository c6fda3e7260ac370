"""Measure `asr read --follow`: how soon, and for what share of the time, the sentence is right.

    python benchmarks/following.py MANIFEST --ids FILE [--pages N] [--sentences N] [-m MODEL]
        [--by-speaker]

A page has the texts of several utterances, each as a sentence. It is read in order, with pauses of
0.3 to 1.5 s, and a second time by a reader who skips, repeats and returns (`order`). The audio is
given in chunks of 0.1 s, at its own pace in simulated time: an answer is there when the audio was
there and the CPU time of all work before it has passed, work that waits for other work included.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.mel import SECONDS_PER_FRAME
from asr.audio.read import SAMPLE_RATE, read
from asr.audio.speech import speech_mask
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.follower import Follower
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table

PAUSE = (0.3, 1.5)  # seconds
CHUNK = SAMPLE_RATE // 10
STEP = 0.01  # seconds; resolution of the shares
LONGEST = 12.0  # seconds of an utterance
SKIPPED, REPEATED, RETURNED = 0.2, 0.15, 0.15  # shares of the sentences after which it happens


class Spoken(NamedTuple):
    """A sentence as it was read, in seconds of the recording."""

    sentence: int
    start: float
    end: float


class Shown(NamedTuple):
    """The sentence that is shown from `time` seconds on; ideal: without the CPU time."""

    sentence: int
    time: float
    ideal: float


class Outcome(NamedTuple):
    """Of one recording. cpu: seconds of CPU time."""

    spoken: list[Spoken]
    shown: list[Shown]
    seconds: float
    cpu: float


def order(sentences: int, random: Random) -> list[int]:
    """Return the sentences in the order in which an unsteady reader reads them."""
    found, place = [], 0
    while place < sentences:
        found.append(place)
        drawn = random.random()
        if drawn < SKIPPED:
            place += 2
        elif drawn < SKIPPED + REPEATED:
            found.append(place)
            place += 1
        elif drawn < SKIPPED + REPEATED + RETURNED and place:
            found += [place - 1, place]
            place += 1
        else:
            place += 1
    return found


def recording(
    sentences: Sequence[NDArray[np.float32]], numbers: Sequence[int], random: Random
) -> tuple[NDArray[np.float32], list[Spoken]]:
    """Join sentences with digital silence after each; return samples and when each was read."""
    parts: list[NDArray[np.float32]] = []
    spoken, at = [], 0.0
    for number in numbers:
        samples = sentences[number]
        speech = np.flatnonzero(speech_mask(samples)) * SECONDS_PER_FRAME
        spoken.append(Spoken(number, at + float(speech[0]), at + float(speech[-1])))
        silence = np.zeros(round(random.uniform(*PAUSE) * SAMPLE_RATE), np.float32)
        parts += [samples, silence]
        at += (len(samples) + len(silence)) / SAMPLE_RATE
    return np.concatenate(parts), spoken


def followed(recognizer: Recognizer, page: str, samples: NDArray[np.float32]) -> list[Shown]:
    """Push a recording chunk by chunk in simulated time."""
    follower = Follower(recognizer, page)
    shown: list[Shown] = []
    clock = 0.0
    for at in range(0, len(samples), CHUNK):
        there = min(at + CHUNK, len(samples)) / SAMPLE_RATE
        before = time.process_time()
        positions = [*follower.push(samples[at : at + CHUNK])]
        clock = max(clock, there) + time.process_time() - before
        for position in positions:
            if not shown or position.sentence != shown[-1].sentence:
                shown.append(Shown(position.sentence, clock, there))
    return shown


def share_right(spoken: Sequence[Spoken], shown: Sequence[tuple[int, float]]) -> tuple[int, int]:
    """Return the steps of speech in which the sentence was right, and all; shown: with its time."""
    right = total = 0
    for sentence, start, end in spoken:
        times = np.arange(start, end, STEP)
        at = np.searchsorted([when for _, when in shown], times, side="right") - 1
        numbers = np.array([-1, *(number for number, _ in shown)])[at + 1]
        right += int((numbers == sentence).sum())
        total += len(times)
    return right, total


def latencies(
    spoken: Sequence[Spoken], shown: Sequence[tuple[int, float]]
) -> Iterator[tuple[float, bool]]:
    """Yield the seconds until each sentence was shown, and whether it was before it ended.

    A sentence that is shown already when it begins, because it is repeated, is left out.
    """
    for one in spoken:
        before = [number for number, when in shown if when <= one.start]
        if before and before[-1] == one.sentence:
            continue
        times = [when for number, when in shown if number == one.sentence and when > one.start]
        is_shown = bool(times) and times[0] <= one.end
        yield (times[0] if is_shown else one.end) - one.start, is_shown


def outcomes(
    recognizer: Recognizer, pages: Sequence[Sequence[Utterance]], unsteady: bool
) -> Iterator[Outcome]:
    """Follow each page through one reading."""
    for number, page in enumerate(pages):
        random = Random(f"{number} {unsteady}")
        numbers = order(len(page), random) if unsteady else list(range(len(page)))
        samples, spoken = recording([read(each.audio).samples for each in page], numbers, random)
        text = "\n\n".join(each.text.lower() for each in page)
        before = time.process_time()
        shown = followed(recognizer, text, samples)
        yield Outcome(spoken, shown, len(samples) / SAMPLE_RATE, time.process_time() - before)


def row(found: Sequence[Outcome], ideal: bool) -> tuple[str, ...]:
    """Return share right, median, 90th percentile and largest latency, and sentences not shown."""
    right = total = missed = 0
    waits: list[float] = []
    for each in found:
        shown = [(one.sentence, one.ideal if ideal else one.time) for one in each.shown]
        some, all_of_it = share_right(each.spoken, shown)
        right, total = right + some, total + all_of_it
        for wait, is_shown in latencies(each.spoken, shown):
            waits.append(wait)
            missed += not is_shown
    quantiles = np.percentile(waits, (50, 90, 100))
    return (
        f"{100 * right / total:.1f}",
        *(f"{value:.2f}" for value in quantiles),
        f"{missed} of {len(waits)}",
    )


def jumps(found: Sequence[Outcome]) -> int:
    """Return how often the reader did not go on with the next sentence."""
    return sum(
        two.sentence != one.sentence + 1 for each in found for one, two in pairwise(each.spoken)
    )


def pages_of(
    utterances: Sequence[Utterance], pages: int, sentences: int, by_speaker: bool
) -> list[list[Utterance]]:
    """Return the utterances of each page: of one speaker, or as they come."""
    groups: dict[str, list[Utterance]] = defaultdict(list)
    for each in utterances:
        if each.duration <= LONGEST:
            groups[str(each.speaker) if by_speaker else ""].append(each)
    if by_speaker:
        return [each[:sentences] for each in list(groups.values())[:pages]]
    return [groups[""][n * sentences : (n + 1) * sentences] for n in range(pages)]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=8, help="of each page")
    parser.add_argument("-m", "--model")
    parser.add_argument("--by-speaker", action="store_true", help="a page has one speaker")
    given = parser.parse_args()
    recognizer = Recognizer.load(given.model)
    utterances = select(read_manifest(given.manifest), given.ids)
    pages = pages_of(utterances, given.pages, given.sentences, given.by_speaker)
    rows = []
    for name, unsteady in (("in order", False), ("skips, repeats, returns", True)):
        found = [*outcomes(recognizer, pages, unsteady)]
        seconds = sum(each.seconds for each in found)
        print(
            f"{name}: {len(found)} pages, {seconds:.0f} s, {jumps(found)} jumps, "
            f"{sum(each.cpu for each in found) / seconds:.2f} CPU seconds a second"
        )
        rows += [(name, *row(found, ideal=False)), ("  without CPU time", *row(found, ideal=True))]
    header = ("reading", "% of time right", "median s", "p90 s", "largest s", "not shown")
    print(text_table(header, rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
