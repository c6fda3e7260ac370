"""How `benchmarks/following.py` reads pages and counts."""

import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from asr.audio.read import SAMPLE_RATE, read
from asr.inference.follower import Position

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import following  # of benchmarks/
from following import Spoken, latencies, order, recording, share_right

FLAC = Path(__file__).parents[1] / "data" / "speech" / "5683-32866-0027.flac"
SPOKEN = [Spoken(0, 1.0, 2.0), Spoken(1, 3.0, 5.0), Spoken(1, 6.0, 7.0), Spoken(0, 8.0, 9.0)]


def test_unsteady_readers_skip_repeat_and_return() -> None:
    steps = {
        two - one for seed in range(20) for one, two in pairwise(order(9, Random(f"a {seed}")))
    }
    assert steps == {-1, 0, 1, 2}
    assert all(0 <= each < 9 for seed in range(20) for each in order(9, Random(seed)))


def test_the_share_counts_speech_only() -> None:
    right, total = share_right(SPOKEN, [(0, 1.5), (1, 2.5), (0, 8.75)])
    assert total == pytest.approx(500, abs=4)
    assert right == pytest.approx(50 + 200 + 100 + 25, abs=4)
    assert share_right(SPOKEN, [])[0] == 0


def test_latencies_leave_out_what_is_shown_already() -> None:
    found = [*latencies(SPOKEN, [(0, 1.5), (1, 3.5), (0, 9.5)])]
    assert found == [(0.5, True), (0.5, True), (1.0, False)]  # the last came after its end


def test_sentences_are_joined_with_pauses() -> None:
    speech = read(FLAC).samples
    samples, spoken = recording([speech, speech[:30_000]], [0, 1, 0], Random(1))
    assert [each.sentence for each in spoken] == [0, 1, 0]
    assert all(one.end + 0.3 <= two.start for one, two in pairwise(spoken))
    assert spoken[-1].end <= len(samples) / SAMPLE_RATE - 0.3


class FakeFollower:
    """Shows a sentence for each second of audio."""

    def __init__(self, *_: object) -> None:
        self.pushed = 0

    def push(self, samples: np.ndarray) -> list[Position]:
        before, self.pushed = self.pushed, self.pushed + len(samples)
        second = self.pushed // SAMPLE_RATE
        is_new = second > before // SAMPLE_RATE
        return [Position(self.pushed / SAMPLE_RATE, second, 0)] * is_new


def test_answers_wait_for_the_work_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1000, 0.25))  # each call of the clock: a chunk costs 0.25 s
    monkeypatch.setattr(following, "Follower", FakeFollower)
    monkeypatch.setattr(following.time, "process_time", lambda: next(clock))
    shown = following.followed(None, "", np.zeros(3 * SAMPLE_RATE, np.float32))
    assert [each.sentence for each in shown] == [1, 2, 3]
    assert [each.ideal for each in shown] == pytest.approx([1, 2, 3])
    # Chunks of 0.1 s come faster than the work is done.
    assert [each.time for each in shown] == pytest.approx([0.1 + 2.5, 0.1 + 5, 0.1 + 7.5])
