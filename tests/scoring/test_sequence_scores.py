"""Scores of sequences: known values, bounds, symmetry, and comparison with brute force."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import UserError
from asr.scoring.sequences import lcs_length, lcs_ratio, position_accuracy, score

# Few symbols, so that sequences share some.
SEQUENCES = st.lists(st.integers(0, 3), max_size=7)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "psa", "lcsr"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1, 1),
        ([1, 2, 3, 4], [2, 3, 4], 0, 3 / 4),  # a deletion at the front shifts the rest
        ([1, 2, 3], [1, 2, 3, 3, 3, 3], 1 / 2, 1 / 2),  # insertions cost as well
        ([1, 2, 3], [3, 2, 1], 1 / 3, 1 / 3),
        ([1, 2], [2, 1], 0, 1 / 2),
        ("abcbdab", "bdcaba", 2 / 7, 4 / 7),
        ([], [], 1, 1),
        ([], [5], 0, 0),
        ([5], [], 0, 0),
    ],
)
def test_known_answers(reference, hypothesis, psa, lcsr):
    assert position_accuracy(reference, hypothesis) == pytest.approx(psa)
    assert lcs_ratio(reference, hypothesis) == pytest.approx(lcsr)


def brute_force(one, other):
    """Return the length of the longest common subsequence by enumeration."""

    def is_inside(part):
        left = iter(other)
        return all(symbol in left for symbol in part)

    return max(
        size
        for size in range(len(one) + 1)
        if any(is_inside(part) for part in combinations(one, size))
    )


@given(SEQUENCES, SEQUENCES)
def test_the_longest_common_subsequence_is_that_of_brute_force(one, other):
    assert lcs_length(one, other) == brute_force(one, other)


@given(SEQUENCES, SEQUENCES)
def test_bounds_and_both_ways_round(one, other):
    psa, lcsr = position_accuracy(one, other), lcs_ratio(one, other)
    assert 0 <= psa <= lcsr <= 1
    assert (psa == 1) == (lcsr == 1) == (one == other)
    assert psa == position_accuracy(other, one)
    assert lcsr == lcs_ratio(other, one) == lcs_ratio(one[::-1], other[::-1])


@given(st.lists(st.tuples(SEQUENCES, SEQUENCES), min_size=1, max_size=5))
def test_scores_are_means_over_the_pairs(pairs):
    found = score(*zip(*pairs, strict=True))
    mean_of = {
        function: sum(function(*pair) for pair in pairs) / len(pairs)
        for function in (position_accuracy, lcs_ratio)
    }
    assert found.position_accuracy == pytest.approx(mean_of[position_accuracy])
    assert found.lcs_ratio == pytest.approx(mean_of[lcs_ratio])
    assert 0 <= found.exact <= found.position_accuracy + 1e-9
    least, most = sorted((found.position_accuracy, found.lcs_ratio))
    assert least - 1e-9 <= found.geometric_mean <= most + 1e-9
    assert found.geometric_mean_empty_as_zero <= found.geometric_mean + 1e-9
    assert found.sequences == len(pairs)


def test_one_pair_of_each_sort():
    found = score([[], [1, 2], [1, 2], []], [[], [1, 2], [2, 1], [3]])
    assert (found.position_accuracy, found.lcs_ratio, found.exact) == (2 / 4, 2.5 / 4, 2 / 4)
    assert found.geometric_mean == pytest.approx(math.sqrt(0.5 * 0.625))
    # In the convention that scores an empty reference 0, one pair of four is lost.
    assert found.empty == 1 / 4
    assert found.geometric_mean_empty_as_zero == pytest.approx(math.sqrt(0.25 * 0.375))


def test_a_perfect_score_is_capped_where_empty_counts_as_nothing():
    references = [[], [1], [1, 2], [3]]
    found = score(references, references)
    assert found.geometric_mean == found.exact == 1
    assert found.geometric_mean_empty_as_zero == 3 / 4
    assert score([[]], [[]]).geometric_mean_empty_as_zero == 0


def test_unequal_numbers_and_nothing_are_refused():
    with pytest.raises(UserError, match="2 references and 1 hypotheses"):
        score([[1], [2]], [[1]])
    with pytest.raises(UserError, match="nothing to score"):
        score([], [])
