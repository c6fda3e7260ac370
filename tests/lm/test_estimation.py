"""Estimation: the model equals a direct implementation of the definitions."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from asr.errors import UserError
from asr.lm import estimation
from asr.lm.estimation import lexicon_of, train_word_ngrams

WORDS = ["a", "b", "c", "d"]


def texts(count=60):
    random.seed(5)
    return [
        random.choices([*WORDS, "rare"], [8, 4, 2, 1, 1], k=random.randint(0, 7))
        for _ in range(count)
    ]


def by_hand(sentences, order):
    """Return the counts of the n-grams of each order, by tuples of words."""
    counts = [Counter() for _ in range(order)]
    for sentence in sentences:
        words = ["<s>", *(word if word in WORDS else "<unk>" for word in sentence), "</s>"]
        for n in range(1, order + 1):
            counts[n - 1].update(tuple(words[at : at + n]) for at in range(len(words) - n + 1))
    return counts


def ngrams_of(model):
    """Return the tables as dictionaries by tuples of words."""
    names = [*model.words, "</s>", "<s>", "<unk>"]
    contexts = [(name,) for name in names]
    found = []
    for table in model.tables:
        keys = [(*contexts[code // len(names)], names[code % len(names)]) for code in table.codes]
        found.append(dict(zip(keys, table.explicit, strict=True)))
        contexts = keys
    return found


def discounts(counts):
    often = Counter(counts.values())
    share = often[1] / (often[1] + 2 * often[2])
    return [0] + [i - (i + 1) * share * often[i + 1] / often[i] for i in (1, 2, 3)]


def test_with_all_kept_each_order_counts_the_contexts_that_the_longer_occur_in():
    sentences = texts()
    raw = by_hand(sentences, 3)
    model = train_word_ngrams(sentences, WORDS, order=3)
    contexts = Counter(gram[1:] for gram in raw[2])
    bigrams = {gram: raw[1][gram] if gram[0] == "<s>" else contexts[gram] for gram in raw[1]}
    for counts, found in ((bigrams, ngrams_of(model)[0]), (raw[2], ngrams_of(model)[1])):
        assert found.keys() == counts.keys()
        for gram, explicit in found.items():
            total = sum(count for other, count in counts.items() if other[:-1] == gram[:-1])
            wanted = (counts[gram] - discounts(counts)[min(counts[gram], 3)]) / total
            assert explicit == pytest.approx(max(wanted, 0))
    follows = Counter(gram[1] for gram in raw[1])
    names = [*WORDS, "</s>", "<s>", "<unk>"]
    wanted = np.array([follows[name] for name in names])
    np.testing.assert_allclose(model.unigrams, wanted / wanted.sum())


def test_those_that_gain_most_are_kept_with_their_contexts():
    sentences = texts()
    raw = by_hand(sentences, 3)
    said = sum(raw[0].values()) - raw[0]["<s>",]

    def gain(gram):
        lower = raw[0][gram[1:]] / said if len(gram) == 2 else raw[1][gram[1:]] / raw[0][gram[1:2]]
        return raw[len(gram) - 1][gram] * math.log(
            raw[len(gram) - 1][gram] / raw[len(gram) - 2][gram[:-1]] / lower
        )

    often = [gram for counts in raw[1:] for gram, count in counts.items() if count > 1]
    best = set(sorted(often, key=gain, reverse=True)[:9])
    kept = {
        gram
        for table in ngrams_of(train_word_ngrams(sentences, WORDS, 3, most=9))
        for gram in table
    }
    assert best <= kept
    assert kept - best == {gram[:2] for gram in best if len(gram) == 3} - best
    assert any(len(gram) == 3 for gram in best)


@pytest.mark.parametrize("most", [4, 12])
def test_an_order_speaks_for_all_that_longer_ones_left_out_counted(most):
    sentences = texts()
    raw = by_hand(sentences, 3)
    model = train_word_ngrams(sentences, WORDS, 3, most)
    kept = [set(table) for table in [*ngrams_of(model), {}]][:2]
    counts = raw[2]
    for n in (2, 1):
        given = Counter({gram: count for gram, count in raw[n - 1].items() if gram[0] == "<s>"})
        for gram, count in counts.items():
            given[gram[1:]] += 1 if gram in kept[n - 1] else count
        counts = given
    assert 0 < len(kept[1]) < len(raw[2]) and len(kept[0]) < len(raw[1])
    wanted = np.array([counts[name,] for name in [*WORDS, "</s>", "<s>", "<unk>"]])
    wanted[-2] = 0  # the start symbol never occurs inside
    np.testing.assert_allclose(model.unigrams, wanted / wanted.sum())


@pytest.mark.parametrize("most", [0, 3, 10, 10_000])
def test_what_is_explicit_leaves_something_for_all_other_words(most):
    for table in ngrams_of(train_word_ngrams(texts(), WORDS, 4, most)):
        sums = Counter()
        for gram, explicit in table.items():
            assert explicit >= 0
            sums[gram[:-1]] += explicit
        assert max(sums.values(), default=0) < 1


def test_a_lexicon_is_of_frequent_words():
    sentences = [["b", "a", "b"], ["c", "b", "a"], ["a", "d"]]
    assert lexicon_of(sentences) == ["a", "b", "c", "d"]
    assert lexicon_of(sentences, least=2) == ["a", "b"]
    assert lexicon_of(iter(sentences), most=3) == ["a", "b", "c"]


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(estimation, "_KEY_BITS", 12)
    assert train_word_ngrams(texts(), WORDS, 4).words == WORDS  # 3 bits a word
    with pytest.raises(UserError, match="4-grams need a lexicon of at most 5 words, not 6"):
        train_word_ngrams(texts(), list("abcdef"), 4)
    with pytest.raises(UserError, match="at least 2 words, not 1"):
        train_word_ngrams(texts(), WORDS, 1)
    with pytest.raises(UserError, match="no text"):
        train_word_ngrams([], WORDS)


@pytest.mark.parametrize("times", [(5, 1, 40, 1), (5, 40, 1, 40)])
def test_impossible_discounts_are_replaced(times):
    counts = np.repeat([1, 2, 3, 4], times)  # how many n-grams occur once, twice, …
    assert estimation._discounts(counts).tolist() == [0, 0.5, 0.5, 0.5]


def test_probabilities_stay_in_range_where_the_formula_gives_impossible_discounts():
    words = [f"w{at:02}" for at in range(94)]
    pairs = [words[at : at + 2] for at in range(0, 94, 2)]
    often = [1] * 5 + [2] + [3] * 40 + [4]
    sentences = [pair for pair, count in zip(pairs, often, strict=True) for _ in range(count)]
    model = train_word_ngrams(sentences, words, order=2)
    assert all(0 <= each <= 1 for each in model.tables[0].explicit)
