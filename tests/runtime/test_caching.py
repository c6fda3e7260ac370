"""The encoder's output of repeated audio: the same results, found by content, bounded."""

import numpy as np
import pytest
from tiny_model import write_tiny_model

from asr.errors import UserError
from asr.inference.recognizer import Recognizer
from asr.models.settings import AttentionSettings
from asr.runtime.caching import CachingEngine
from asr.runtime.engine import PaddedAudio

RATE = 16_000


@pytest.fixture(scope="module")
def recognizer(tmp_path_factory):
    return Recognizer.load(write_tiny_model(tmp_path_factory.mktemp("models") / "tiny"))


class Counting:
    """Stands for an engine and counts what it encodes."""

    def __init__(self):
        self.encoded = []

    def encode(self, audio):
        self.encoded.append(audio)
        return len(self.encoded)

    def windowed(self, attention):
        return Counting()


def audio(seconds, level, rows=1):
    samples = np.full((rows, int(seconds * RATE)), level, np.float32)
    lengths = np.full(rows, samples.shape[1], np.int64)
    return PaddedAudio(samples, lengths, np.ones((rows, int(seconds * 100)), bool))


def noise(seconds, seed):
    time = np.arange(int(seconds * RATE)) / RATE
    voice = np.sin(2 * np.pi * 200 * time) * (np.sin(2 * np.pi * 3 * time) > 0)
    return (0.3 * voice + 0.01 * np.random.default_rng(seed).standard_normal(len(time))).astype(
        np.float32
    )


def test_the_same_content_is_encoded_once():
    engine = CachingEngine(Counting(), 10.0, RATE)
    assert engine.encode(audio(2, 0.1)) == 1 == engine.encode(audio(2, 0.1))
    assert engine.hits == 1
    assert engine.encode(audio(2, 0.2)) == 2
    other = audio(2, 0.1)
    other.speech[0, 5] = False
    assert engine.encode(other) == 3
    assert engine.encode(audio(2, 0.1)._replace(lengths=np.array([RATE]))) == 4
    assert engine.hits == 1


def test_the_batch_that_was_not_used_for_longest_is_dropped():
    engine = CachingEngine(Counting(), 5.0, RATE)
    for level in (0.1, 0.2, 0.1, 0.3):  # 0.2 was not used for longest
        engine.encode(audio(2, level))
    assert (len(engine.engine.encoded), engine.hits) == (3, 1)
    assert engine.encode(audio(2, 0.1)) == 1 and engine.encode(audio(2, 0.3)) == 3
    assert engine.encode(audio(2, 0.2)) == 4


def test_a_batch_that_is_too_long_with_its_padding_leaves_the_cache_as_it_is():
    engine = CachingEngine(Counting(), 5.0, RATE)
    assert engine.encode(audio(2, 0.1, rows=2)) == 1
    for _ in range(2):
        engine.encode(audio(2, 0.1, rows=3))
    assert (len(engine.engine.encoded), engine.hits) == (3, 0)
    assert engine.encode(audio(2, 0.1, rows=2)) == 1


def test_a_window_has_a_cache_of_its_own():
    engine = CachingEngine(Counting(), 5.0, RATE)
    engine.encode(audio(2, 0.1))
    other = engine.windowed(AttentionSettings(window_back=2, window_ahead=2))
    other.encode(audio(2, 0.1))
    assert engine.hits == other.hits == 0


def test_transcripts_alignments_and_windows_are_the_same(recognizer):
    caching = recognizer.caching(60.0)
    one, two = noise(3, 1), noise(2, 2)
    for each in (one, two, one):
        wanted, found = (which.transcribe(each, rate=RATE) for which in (recognizer, caching))
        assert found.text == wanted.text
        for mine, theirs in zip(found.segments, wanted.segments, strict=True):
            np.testing.assert_array_equal(mine.weights, theirs.weights)
    before = caching.loaded.engine.hits
    assert before >= 1
    wanted, found = (which.align(two, "a b", rate=RATE) for which in (recognizer, caching))
    assert [word.start for word in found.words] == [word.start for word in wanted.words]
    windowed = caching.configured(window=(0.4, 0.4))
    assert isinstance(windowed.loaded.engine, CachingEngine)
    wanted = recognizer.configured(window=(0.4, 0.4)).transcribe(one, rate=RATE)
    assert windowed.transcribe(one, rate=RATE).text == wanted.text


def test_a_cache_can_be_replaced_and_removed(recognizer):
    caching = recognizer.caching(60.0)
    assert caching.caching(0).loaded.engine is recognizer.loaded.engine
    assert caching.caching(5).loaded.engine.engine is recognizer.loaded.engine
    with pytest.raises(UserError, match="cache of -1 s"):
        recognizer.caching(-1)
