"""Cutting of long recordings: contiguous pieces, cuts in pauses, bounded memory, no lost speech."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.audio.read import SAMPLE_RATE
from asr.inference.cutting import FRAME, GAP, MARGIN, in_frames, next_cut, pieces

SIZE = round(FRAME * SAMPLE_RATE)


def by_level(samples):
    """Find speech where the samples are large: the detector of these tests."""
    padded = np.pad(samples, (0, -len(samples) % SIZE))
    return np.abs(padded.reshape(-1, SIZE)).max(1) > 0.05


def recording(*stretches):
    """Join (seconds of speech, seconds of pause) to samples."""
    parts = []
    for speech, pause in stretches:
        noise = np.random.default_rng(len(parts)).uniform(0.06, 0.5, round(speech * SAMPLE_RATE))
        parts += [noise, np.full(round(pause * SAMPLE_RATE), 0.001)]
    return np.concatenate(parts).astype(np.float32)


def in_blocks(samples, size):
    return (samples[at : at + size] for at in range(0, len(samples), size))


stretches = st.lists(st.tuples(st.floats(0.1, 30), st.floats(0, 8)), min_size=1, max_size=8)


@given(stretches, st.floats(4, 20), st.integers(5_000, 500_000))
@settings(max_examples=40, deadline=None)
def test_pieces_cover_the_recording_and_lose_no_speech(parts, longest, block):
    samples = recording(*parts)
    found = list(pieces(in_blocks(samples, block), by_level, longest))
    assert found[0].start == 0
    for one, two in pairwise(found):
        assert two.start == pytest.approx(one.start + one.duration)
    assert np.array_equal(np.concatenate([each.samples for each in found]), samples)
    assert max(each.duration for each in found) <= longest + FRAME
    for each in found:
        if not each.speech.any():
            assert by_level(each.samples).sum() * FRAME <= 0.16  # too short to be speech


@given(st.integers(1_000, 400_000))
@settings(max_examples=20, deadline=None)
def test_the_size_of_blocks_does_not_matter(block):
    samples = recording((5, 1), (12, 0.4), (9, 3), (25, 0.3), (2, 0.1))
    one, other = (list(pieces(in_blocks(samples, size), by_level, 10)) for size in (block, 10**9))
    assert [each.start for each in one] == [each.start for each in other]


def test_a_short_recording_is_one_piece_without_a_first_pass():
    samples = recording((3, 4), (3, 0))

    def never(samples):
        raise AssertionError

    (piece,) = pieces(in_blocks(samples, 1_000), never, 10)
    assert np.array_equal(piece.samples, samples) and piece.speech.any()
    assert not list(pieces([], never, 10))


def test_cuts_fall_into_pauses_and_gaps_are_pieces():
    samples = recording((6, 0.8), (5, 0.4), (7, 6.0), (8, 0.8), (4, 0.0))
    found = list(pieces([samples], by_level, 20))
    cuts = [each.start for each in found[1:]]
    wanted = [6 + MARGIN, 19.2 + MARGIN, 25.2 - MARGIN, 33.2 + MARGIN]
    assert cuts == pytest.approx(wanted, abs=2 * FRAME)
    assert [bool(each.speech.any()) for each in found] == [True, True, False, True, True]


def test_noise_as_loud_as_speech_is_cut_by_symbols_not_by_level():
    # The detector, not the level, decides: here speech is where the samples are negative.
    samples = np.concatenate([recording((8, 0)), -recording((8, 0)), recording((8, 0))])
    found = list(pieces([samples], lambda part: by_level(np.minimum(part, 0)), 10))
    spoken = [each for each in found if each.speech.any()]
    assert spoken[0].start == pytest.approx(8 - MARGIN, abs=2 * FRAME)
    assert spoken[-1].start + spoken[-1].duration <= 16 + GAP


def test_speech_without_a_pause_is_cut_between_symbols():
    mask = np.ones(700, bool)
    mask[[150, 200, 201, 202, 300]] = False
    assert next_cut(mask, 250, is_last=False) == (201, False)
    assert next_cut(np.ones(700, bool), 250, is_last=False) == (250, False)


def test_without_a_pause_another_detector_tells_symbols_apart():
    samples = recording((14, 0.16), (9, 1))  # a time between words that `detect` does not see
    asked = []

    def symbols(given):
        asked.append(len(given))
        return by_level(given)

    found = list(
        pieces([samples], lambda given: np.ones(-(-len(given) // SIZE), bool), 20, symbols)
    )
    assert found[0].duration == pytest.approx(14.08, abs=FRAME)
    assert asked == [20 * SAMPLE_RATE]
    asked.clear()
    paused = recording((14, 1), (9, 1))
    assert len(list(pieces([paused], by_level, 20, symbols))) > 1 and not asked  # pauses suffice


def test_short_speech_ends_only_at_a_gap():
    mask = np.zeros(900, bool)
    mask[5:30] = mask[60:180] = True  # a second, a pause of 1.2 s, five seconds, a gap
    assert next_cut(mask, 500, is_last=True).end == 180 + round(MARGIN / FRAME)
    mask[30:60] = False
    mask[60:180] = False
    assert next_cut(mask, 500, is_last=True).end == 30 + round(MARGIN / FRAME)


def test_a_recording_is_read_only_as_far_as_its_pieces_need():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield recording((4, 1))

    found = pieces(endless(), by_level, 10)
    held = []
    for _ in range(200):
        piece = next(found)
        held.append(5 * taken - (piece.start + piece.duration))
    assert max(held) < 60  # seconds


def test_frames_of_another_length_mark_those_of_40_ms():
    mask = np.array([False, True, False, False, True])  # 0.03 to 0.06 s, 0.12 to 0.15 s
    assert in_frames(mask, 0.03, 2400).tolist() == [False, True, False, True]
