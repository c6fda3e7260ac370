"""The benchmark of detectors, which run frame by frame."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(FOLDER))
    yield SimpleNamespace(**runpy.run_path(str(FOLDER / "detectors.py")))
    sys.path.remove(str(FOLDER))


def test_a_last_frame_is_padded(benchmark):
    frames = benchmark.whole_frames(np.ones(5, np.float32), 3)
    assert frames.tolist() == [[1, 1, 1], [1, 1, 0]]


def test_webrtc_gets_frames_of_16_bits(benchmark):
    class Loud:
        def is_speech(self, coded, rate):
            assert rate == 16_000 and len(coded) == 2 * 480
            return np.frombuffer(coded, np.int16).max() > 16_000

    samples = np.zeros(3 * 640, np.float32)
    samples[1300:1900] = 0.9  # in frames of 0.06 to 0.12 s
    assert benchmark.webrtc(Loud())(samples).tolist() == [False, True, True]


def test_silero_gets_its_state_and_the_samples_before(benchmark):
    class Counting:
        calls = 0

        def run(self, _, inputs):
            assert inputs["input"].shape == (1, 576) and inputs["state"][0, 0, 0] == self.calls
            if self.calls:
                assert inputs["input"][0, :64].tolist() == [self.calls] * 64
            self.calls += 1
            return np.array([[0.1 * self.calls]]), np.full((2, 1, 128), self.calls, np.float32)

    samples = np.repeat(np.arange(1, 9, dtype=np.float32), 512)  # 8 frames, the 5th has 0.5
    found = benchmark.silero(Counting())(samples)
    assert found.tolist() == [False] * 3 + [True] * 4


def test_the_time_of_a_detector_is_counted(benchmark):
    spent = []
    timed = benchmark.timed(lambda samples: samples > 0, spent)
    assert timed(np.array([-1.0, 1.0])).tolist() == [False, True] and len(spent) == 1
