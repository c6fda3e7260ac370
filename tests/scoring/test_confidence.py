"""Calibration error of word confidence."""

import numpy as np
import pytest

from asr.scoring.confidence import Bin, correct_words, expected_calibration_error, reliability


@pytest.mark.parametrize(
    ("reference", "hypothesis", "correct"),
    [
        ("the cat sat", "the cat sat", [True, True, True]),
        ("the cat sat", "a cat", [False, True]),
        ("the cat", "the big  cat", [True, False, True]),
        ("", "the cat", [False, False]),
        ("the cat", "", []),
    ],
)
def test_words_are_right_where_an_alignment_finds_them(reference, hypothesis, correct):
    assert correct_words(reference, hypothesis) == correct


def test_words_are_grouped_in_bins_of_equal_width():
    confidences = [0.0, 0.09, 0.55, 0.58, 1.0]
    correct = [False, True, True, False, True]
    expected = [Bin(2, 0.045, 0.5), Bin(2, 0.565, 0.5), Bin(1, 1.0, 1.0)]
    assert reliability(confidences, correct) == [pytest.approx(each) for each in expected]
    assert reliability([], []) == []


def test_the_error_is_the_mean_distance_over_words():
    grouped = [Bin(3, 0.9, 0.7), Bin(1, 0.2, 0.6)]
    assert expected_calibration_error(grouped) == pytest.approx((3 * 0.2 + 0.4) / 4)
    assert expected_calibration_error([]) == 0


def test_confidence_that_is_the_probability_has_a_small_error():
    random = np.random.default_rng(1)
    confidences = random.random(20_000)
    right = random.random(20_000) < confidences
    assert expected_calibration_error(reliability(confidences, right)) < 0.02
    assert expected_calibration_error(reliability(confidences**2, right)) > 0.1
