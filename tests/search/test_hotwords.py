"""Favoured words: the automaton counts their characters, and the search finds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.search.beam import beam_search
from asr.search.hotwords import HotwordGraph, HotwordScorer
from asr.search.options import BeamSettings
from asr.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary.characters()
(SPACE,) = VOCABULARY.encode(" ")


def graph_of(*words: str) -> HotwordGraph:
    return HotwordGraph(map(VOCABULARY.encode, words), SPACE, len(VOCABULARY))


few = st.text(alphabet="ab", min_size=1, max_size=4)


@given(st.lists(few, min_size=1, max_size=4), st.lists(few, max_size=6))
@settings(deadline=None)
def test_a_text_gains_the_characters_of_its_favoured_words(
    favoured: list[str], text: list[str]
) -> None:
    found = graph_of(*favoured).characters(VOCABULARY.encode(" ".join(text)))
    assert found == sum(len(word) for word in text if word in favoured)


@pytest.mark.parametrize(
    ("favoured", "text", "gained"),
    [
        (["new york"], "a new york b", 8),
        (["new york"], "a new year", 0),
        (["new york"], "new", 0),
        (["new york", "york"], "york new york", 12),
        (["new york times", "york"], "new york ties", 4),
        (["new", "new york"], "new year", 3),
        (["new", "new york"], "new york", 8),
        (["new york", "orleans"], "new orleans", 7),
        (["ann"], "anna ann", 3),
    ],
)
def test_phrases_count_when_they_are_complete(favoured: list[str], text: str, gained: int) -> None:
    assert graph_of(*favoured).characters(VOCABULARY.encode(text)) == gained


@given(st.lists(st.lists(few, min_size=1, max_size=3), min_size=1, max_size=4))
@settings(deadline=None)
def test_the_bound_holds(favoured: list[list[str]]) -> None:
    graph = graph_of(*(" ".join(words) for words in favoured))
    assert graph.scores.max() <= HotwordScorer(graph, 1.0).bound


def test_the_bound_is_above_1_where_phrases_overlap() -> None:
    graph = graph_of("new york", "york times")
    assert HotwordScorer(graph, 1.0).bound == graph.scores.max() == len("york ")
    assert HotwordScorer(graph_of("new york", "times"), 1.0).bound == 1.0


def test_a_search_prefers_a_favoured_word_and_nothing_else_changes(toys) -> None:
    limit, size = 3, 6  # tokens 2 … 5; 5 stands for the space
    memory = toys.table_memory(4, size, limit, seed=5)
    settings = BeamSettings(size=400, end_threshold=None, width=1e3, guard=None)
    texts = [toys.all_texts(memory.values[row], limit) for row in range(4)]
    graph = HotwordGraph([[2, 3], [4]], 5, size)
    for weight in (0.0, 1.0, 3.0):
        decoder = toys.bound(toys.TableDecoder(), memory)
        found = beam_search(
            decoder, np.full(4, limit), settings, [HotwordScorer(graph, weight)], best=3
        )
        for all_texts, best in zip(texts, found, strict=True):
            scores = {
                text: sum(summands) + weight * graph.characters(text)
                for text, summands in all_texts.items()
            }
            expected = sorted(scores.values(), reverse=True)[:3]
            assert [each.score for each in best] == pytest.approx(expected, abs=1e-4)
            assert best[0].log_probability == pytest.approx(sum(all_texts[tuple(best[0].tokens)]))


def test_an_empty_word_is_refused() -> None:
    with pytest.raises(ValueError, match="empty word"):
        HotwordGraph([[]], SPACE, len(VOCABULARY))
