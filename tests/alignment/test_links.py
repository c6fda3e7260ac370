"""Weights of subwords merge into weights of words; links name the attended words."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from asr.alignment.links import SourceWord, attention_record, merge_words, pharaoh, source_words
from asr.results import StopReason
from asr.translation import Translation, WordWeights, chain

SOURCE = ("▁I", "'m", "▁ho", "me", "<eos>")
TARGET = ("▁Je", "▁suis", "▁chez", "▁m", "oi", ".", "<eos>")
WEIGHTS = np.array(
    [
        [0.5, 0.4, 0.1, 0.0, 0.0],  # Je
        [0.3, 0.6, 0.1, 0.0, 0.0],  # suis
        [0.1, 0.0, 0.4, 0.5, 0.0],  # chez
        [0.0, 0.0, 0.5, 0.4, 0.1],  # m-
        [0.0, 0.4, 0.5, 0.1, 0.0],  # -oi
        [0.0, 0.0, 0.0, 0.0, 1.0],  # .
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ],
    dtype=np.float32,
)


def test_pieces_of_a_word_are_seen_together_and_look_on_the_average() -> None:
    found = merge_words(WEIGHTS, SOURCE, TARGET, subwords=True)
    assert found.source == ("I'm", "home", "<eos>")
    assert found.target == ("Je", "suis", "chez", "moi.", "<eos>")
    expected = [[0.9, 0.1, 0], [0.9, 0.1, 0], [0.1, 0.9, 0], [0.4 / 3, 0.5, 1.1 / 3], [0, 0, 1]]
    np.testing.assert_allclose(found.weights, expected, atol=1e-6)
    np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-6)


def test_words_stay_as_they_are() -> None:
    found = merge_words(WEIGHTS[:3], SOURCE, ("a", "b", "<eos>"), subwords=False)
    assert found.source == SOURCE and found.weights is not None
    np.testing.assert_array_equal(found.weights, WEIGHTS[:3])


def test_the_end_alone_is_a_word() -> None:
    found = merge_words(np.ones((1, 1), np.float32), ("<eos>",), ("<eos>",), subwords=True)
    assert found.source == found.target == ("<eos>",)
    assert pharaoh([found]) == "" and source_words([found]) == []


def test_links_are_source_first_and_leave_the_end_out() -> None:
    found = merge_words(WEIGHTS, SOURCE, TARGET, subwords=True)
    assert pharaoh([found]) == "0-0 0-1 1-2 1-3"
    to_the_end = merge_words(WEIGHTS[[0, 5, 6]], SOURCE, ("▁a", "▁b", "<eos>"), subwords=True)
    assert pharaoh([to_the_end]) == "0-0"


def test_what_was_looked_at_is_named_from_the_most_down() -> None:
    found = source_words([merge_words(WEIGHTS, SOURCE, TARGET, subwords=True)])
    assert len(found) == 4
    assert [look[:2] for look in found[3]] == [(1, "home"), (2, "<eos>"), (0, "I'm")]
    assert found[0][0] == SourceWord(0, "I'm", pytest.approx(0.9))


def test_sentences_in_a_row_look_at_their_own_source_alone_and_share_an_end() -> None:
    one = WordWeights(("a", "b", "<eos>"), ("A", "<eos>"), f32([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]))
    two = WordWeights(
        ("c", "<eos>"), ("B", "C", "<eos>"), f32([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    )
    found = chain([one, two])
    assert found.source == ("a", "b", "c", "<eos>") and found.target == ("A", "B", "C", "<eos>")
    expected = [[0.7, 0.2, 0, 0.1], [0, 0, 0.9, 0.1], [0, 0, 0.6, 0.4], [0, 0, 0.3, 0.7]]
    np.testing.assert_array_equal(found.weights, f32(expected))
    assert chain([one]) is one
    assert source_words([one, two]) == source_words([found])
    assert pharaoh([one, two]) == pharaoh([found]) == "0-0 2-1 2-2"


def test_the_links_of_many_sentences_take_no_matrix_of_all_their_words() -> None:
    one = WordWeights(("a", "<eos>"), ("A", "<eos>"), np.eye(2, dtype=np.float32))
    tracemalloc.start()
    translation = Translation("", "", (one,) * 5000, (one,) * 5000, 0.0, StopReason.EOS)
    record = attention_record(translation.words_of_sentences)
    assert record["links"][4999] == [{"word": 4999, "share": 1.0}]
    assert len(translation.source_tokens) == 5001
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20e6  # 5001 x 5001 float32: 100 MB


def f32(rows: list[list[float]]) -> NDArray[np.float32]:
    return np.array(rows, np.float32)
