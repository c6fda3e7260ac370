"""Compare live recognition with that of the whole recording: word errors, latency and CPU time.

    python benchmarks/live.py MANIFEST --ids FILE [--speakers N] [--utterances N] [--model MODEL]
        [--beam N]

The utterances of a speaker are joined with pauses of 0.3 to 1.5 s, and given in chunks of 0.1 s.
Latency is counted from the end of the last word of a segment until its text is final: the audio
that had to be waited for, and the CPU time of the call that returned it.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jiwer
import numpy as np
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE, read
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.live import Finalised, LiveText
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table

PAUSE = (0.3, 1.5)  # seconds
CHUNK = SAMPLE_RATE // 10


class Outcome(NamedTuple):
    """Of one recording. waits, costs: seconds of audio and of CPU time for each segment."""

    text: str
    waits: list[float]
    costs: list[float]
    slowest: float
    cpu: float


def main() -> int:
    """Print a table of word error rates and one of latencies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path)
    parser.add_argument("--speakers", type=int, default=8)
    parser.add_argument("--utterances", type=int, default=8, help="of each speaker")
    parser.add_argument("--model")
    parser.add_argument("--beam", type=int)
    given = parser.parse_args()
    recognizer = Recognizer.load(given.model).configured(beam=given.beam)
    chosen = select(read_manifest(given.manifest), given.ids)
    speakers = by_speaker(chosen, given.speakers, given.utterances)
    random = np.random.default_rng(0)
    recordings = [joined(each, random) for each in speakers]
    texts = [" ".join(one.text for one in each) for each in speakers]
    live = [recognised_live(recognizer, each) for each in recordings]
    started = time.process_time()
    whole = [recognizer.transcribe(each, rate=SAMPLE_RATE).text for each in recordings]
    report(texts, recordings, live, whole, time.process_time() - started)
    return 0


def by_speaker(utterances: Sequence[Utterance], speakers: int, most: int) -> list[list[Utterance]]:
    """Return the first utterances of the first speakers."""
    found: dict[str, list[Utterance]] = defaultdict(list)
    for each in utterances:
        found[str(each.speaker)].append(each)
    return [each[:most] for each in list(found.values())[:speakers]]


def joined(utterances: Sequence[Utterance], random: np.random.Generator) -> NDArray[np.float32]:
    """Return the samples of utterances with digital silence after each."""

    def parts() -> Iterator[NDArray[np.float32]]:
        for each in utterances:
            yield read(each.audio).samples
            yield np.zeros(round(random.uniform(*PAUSE) * SAMPLE_RATE), np.float32)

    return np.concatenate([*parts()])


def recognised_live(recognizer: Recognizer, samples: NDArray[np.float32]) -> Outcome:
    """Push a recording chunk by chunk."""
    live = LiveText(recognizer)
    words, waits, costs, slowest = [], [], [], 0.0
    started = time.process_time()
    for at in range(0, len(samples) + 1, CHUNK):
        before = time.process_time()
        chunk = samples[at : at + CHUNK]
        events = (
            [*live.push(chunk)]
            if at + CHUNK <= len(samples)
            else [
                *live.push(chunk),
                *live.finish(),
            ]
        )
        cost = time.process_time() - before
        slowest = max(slowest, cost)
        for event in events:
            if isinstance(event, Finalised):
                segment = event.segment
                words += [word.text for word in segment.words]
                waits.append((at + len(chunk)) / SAMPLE_RATE - segment.words[-1].end)
                costs.append(cost)
    return Outcome(" ".join(words), waits, costs, slowest, time.process_time() - started)


def report(
    texts: Sequence[str],
    recordings: Sequence[NDArray[np.float32]],
    live: Sequence[Outcome],
    whole: Sequence[str],
    cpu: float,
) -> None:
    """Print the figures."""
    seconds = sum(map(len, recordings)) / SAMPLE_RATE
    rows = [
        ("live", jiwer.wer(texts, [each.text for each in live]), sum(each.cpu for each in live)),
        ("whole", jiwer.wer(texts, list(whole)), cpu),
    ]
    print(f"{len(texts)} recordings, {seconds:.0f} s, {len(' '.join(texts).split())} words")
    print(
        text_table(
            ("way", "WER", "CPU s / s of audio"),
            [(way, f"{100 * wer:.1f} %", f"{spent / seconds:.3f}") for way, wer, spent in rows],
        )
    )
    waits = np.concatenate([each.waits for each in live])
    costs = np.concatenate([each.costs for each in live])
    print(f"\n{len(waits)} segments; seconds from the end of a word until its text is final:")
    quantiles = (50, 90, 100)
    table = [
        ("audio waited for", *np.percentile(waits, quantiles)),
        ("CPU time of the call", *np.percentile(costs, quantiles)),
        ("together", *np.percentile(waits + costs, quantiles)),
    ]
    print(text_table(("", "median", "p90", "largest"), table))
    print(f"slowest call: {max(each.slowest for each in live):.2f} s")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
