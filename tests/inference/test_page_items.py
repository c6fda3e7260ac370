"""Speech that is not on the page, aligned with the words in whose place it was said."""

from difflib import SequenceMatcher
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.alignment.page import Visit
from asr.inference import page_items
from asr.inference.page_items import Heard, Item, find_items
from asr.inference.pieces import Piece
from asr.results import Word
from asr.text.page import page_words
from asr.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary.characters()
LOADED = SimpleNamespace(vocabulary=VOCABULARY)
FRAMES = 25  # of a piece of one second


def heard(start: float, words: str, path: str = "") -> Heard:
    """Return a piece of one second with words of equal length, and a path of CTC without them."""
    samples = np.zeros(16000, np.float32)
    texts = words.split()
    each = 1 / max(len(texts), 1)
    spans = [
        Word(text, start + at * each, start + (at + 1) * each) for at, text in enumerate(texts)
    ]
    ctc = np.full((FRAMES, len(VOCABULARY)), -20.0, np.float32)
    ctc[:, 0] = -1.0
    for at, symbol in enumerate(VOCABULARY.encode(path)):
        ctc[2 * at, symbol] = 0.0
    piece = Piece(start, samples, np.ones(100, bool))
    return Heard(piece, SimpleNamespace(), ctc, SimpleNamespace(words=tuple(spans)))


@pytest.mark.parametrize("free", [True, False])
def test_speech_across_a_cut_keeps_both_parts(free: bool) -> None:
    pieces = [
        heard(at, text if free else "", "" if free else text)
        for at, text in enumerate(("so well", "oh no"))
    ]
    found = find_items(LOADED, pieces, [Visit(None, 0, 2 * FRAMES, 0.0)], [])
    assert found == [
        Item(piece, None, text, text)
        for piece, text in ((0, "so"), (0, "well"), (1, "oh"), (1, "no"))
    ]


def test_what_replaces_page_words_across_a_cut_lies_in_the_pieces_it_was_said_in() -> None:
    pieces = [heard(0, "the bold"), heard(1, "sun")]
    page = page_words(["the cold moon"])
    found = find_items(LOADED, pieces, [Visit(None, 0, 2 * FRAMES, 0.0)], page)
    assert found == [
        Item(0, 0, "the", "the"),
        Item(0, 1, "cold", "bold"),
        Item(1, 2, "moon", "sun"),
    ]


def test_words_read_again_across_a_cut_are_those_of_the_page() -> None:
    pieces = [heard(0, "a cold"), heard(1, "a"), heard(2, "cold")]
    visits = [
        Visit(0, 0, 10, 0.0),
        Visit(1, 10, FRAMES, 0.0),
        Visit(None, FRAMES, 3 * FRAMES, 0.0),
    ]
    found = find_items(LOADED, pieces, visits, page_words(["a cold"]))
    assert found[2:] == [Item(1, 0, "a", "a"), Item(2, 1, "cold", "cold")]


def test_a_page_word_that_nobody_can_say_in_the_time_is_not_aligned() -> None:
    page = page_words(["so 777,777 bolder"])  # 57 characters as it is said
    visits = [Visit(0, 0, 8, 0.0), Visit(None, 8, FRAMES, 0.0)]
    found = find_items(LOADED, [heard(0, "so sun bold")], visits, page)
    assert found[1:] == [
        Item(0, 1, "sun", "sun", fits=False),
        Item(0, 2, "bolder", "bold"),
    ]


few = st.text("abc", min_size=1, max_size=5)


@given(st.lists(few, min_size=1, max_size=8), few)
def test_the_most_similar_run_is_the_first_with_the_highest_ratio(
    said: list[str], spoken: str
) -> None:
    def ratio(run: tuple[int, int]) -> float:
        return SequenceMatcher(None, "".join(said[slice(*run)]), spoken).ratio()

    runs = combinations(range(len(said) + 1), 2)
    assert page_items._most_similar(said, spoken) == max(runs, key=ratio)


def test_long_speech_in_place_of_a_word_is_not_compared_in_all_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def matcher(junk: None, run: str, spoken: str) -> SequenceMatcher:
        compared.append(run)
        return SequenceMatcher(junk, run, spoken)

    monkeypatch.setattr(page_items, "SequenceMatcher", matcher)
    said = ["well", "that", "moan", "and", "this"] * 30
    assert page_items._most_similar(said, "moon") == (2, 3)
    assert len(compared) < 2 * len(said) and max(map(len, compared)) < 20
