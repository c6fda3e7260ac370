"""The probability that a word of a page was read as printed."""

import pytest

from asr.inference.reader import STANDARD
from asr.inference.reading_evidence import FITTED, LEAST, Evidence


@pytest.mark.parametrize("characters", [1, 5, 14, 20, 50, 500])
def test_a_word_with_the_worst_evidence_was_not_read_whatever_its_length(characters: int) -> None:
    worst = Evidence(2 * LEAST, 2 * LEAST, agrees=False, rival=0.0, characters=characters)
    assert FITTED.probability(worst) < STANDARD.threshold


@pytest.mark.parametrize("characters", [1, 5, 14, 20, 50, 500])
def test_a_word_with_the_best_evidence_was_read(characters: int) -> None:
    best = Evidence(0.0, 0.0, agrees=True, rival=0.0, characters=characters)
    assert FITTED.probability(best) > 0.99
