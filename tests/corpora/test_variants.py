"""Variants of pairs: both sides change together, deterministically for a seed."""

import re

import numpy as np

from asr.corpora.pairs import Pair
from asr.corpora.variants import exchange, join, rename, spoken


def test_joined_pairs_are_two_or_three_whole_sentences_in_a_row() -> None:
    pairs = [Pair(f"s{n}.", f"t{n} !") for n in range(9)] + [Pair("in pieces", "en morceaux.")]
    joined = join(pairs, 60, np.random.default_rng(1))
    assert len(joined) == 60
    for pair in joined:
        source, target = pair.source.split(), pair.target.replace(" !", "").split()
        assert len(source) in (2, 3)
        assert [word[1:-1] for word in source] == [word[1:] for word in target]
    assert {len(pair.source.split()) for pair in joined} == {2, 3}
    assert len({word for pair in joined for word in pair.source.split()}) == 9
    assert join(pairs, 60, np.random.default_rng(1)) == joined
    assert join(pairs[-1:], 5, np.random.default_rng(1)) == []


def test_spoken_texts_have_no_marks_but_apostrophes() -> None:
    assert spoken("Don't go, Tom -- it's 5 o'clock!") == "don't go tom it's 5 o'clock"
    assert spoken("'Élise?' \"No.\"") == "élise no"
    assert spoken("?!") == ""


def test_renamed_pairs_have_another_name_or_number_alike_on_both_sides() -> None:
    pairs = [
        Pair("Tom saw Mary in Boston.", "Tom a vu Marie à Boston."),
        Pair("I have 120 cats.", "J'ai 120 chats."),
        Pair("I am cold.", "J'ai froid."),
        Pair("An OK No.", "Un OK No."),  # too short, or in capitals
    ]
    found = rename(pairs, 80, np.random.default_rng(1))
    assert len(found) == 80 and rename(pairs, 80, np.random.default_rng(1)) == found
    names, numbers = set(), set()
    for source, target in found:
        if name := re.fullmatch(r"(\w+) saw Mary in (\w+)\.", source):
            assert target == f"{name[1]} a vu Marie à {name[2]}."
            names |= {name[1], name[2]}
        else:
            number = re.fullmatch(r"I have ([1-9]\d\d) cats\.", source)
            assert number and target == f"J'ai {number[1]} chats."
            numbers.add(number[1])
    assert names == {"Toom", "Toton", "Bosom", "Boston"}
    assert len(numbers) > 20
    assert rename(pairs[2:], 5, np.random.default_rng(1)) == []


def test_pairs_with_a_rare_name_are_renamed_more_often() -> None:
    pairs = [Pair("Tom left.", "Tom est parti.")] * 100 + [Pair("See Rome.", "Voyez Rome.")]
    found = rename(pairs, 1000, np.random.default_rng(1))
    rare = sum(pair.source.startswith("See") for pair in found)
    assert 50 < rare < 150  # expected 1 / (1 + 100 / 10) of them; uniformly 1 / 101


DAYS = [Pair("Monday", "lundi"), Pair("Friday", "vendredi"), Pair("Sunday", "dimanche")]
RIVERS = [Pair("the Rhine", "le Rhin"), Pair("the Rhône", "le Rhône")]


def test_exchanged_pairs_have_another_word_of_its_class_on_both_sides() -> None:
    pairs = [
        Pair("See you Monday.", "À lundi."),
        Pair("I love the Rhine.", "J'aime le Rhin."),
        Pair("From Friday to Sunday.", "De vendredi à dimanche."),
        Pair("Mondays, Monday!", "Le lundi, lundi !"),  # twice on one side
        Pair("Good Friday.", "Le Vendredi saint."),  # the word on one side only
        Pair("Sundays.", "Les dimanches."),  # not whole
    ]
    found = exchange(pairs, [DAYS, RIVERS], 200, np.random.default_rng(1))
    assert len(found) == 200
    assert exchange(pairs, [DAYS, RIVERS], 200, np.random.default_rng(1)) == found
    assert set(found) == {
        Pair("See you Friday.", "À vendredi."),
        Pair("See you Sunday.", "À dimanche."),
        Pair("I love the Rhône.", "J'aime le Rhône."),
        Pair("From Monday to Sunday.", "De lundi à dimanche."),
        Pair("From Friday to Monday.", "De vendredi à lundi."),
    }
    assert exchange(pairs[3:], [DAYS, RIVERS], 5, np.random.default_rng(1)) == []
    assert exchange(pairs, [], 5, np.random.default_rng(1)) == []


def test_rare_words_are_put_in_as_often_as_common_ones() -> None:
    pairs = [Pair("On Monday.", "Le lundi."), Pair("The Rhine.", "Le Rhin.")]
    pairs += [Pair(f"Friday {n}.", f"Un vendredi {n}.") for n in range(90)]
    pairs += [Pair("By the Rhine.", "Sur le Rhin.")]
    found = exchange(pairs, [DAYS, RIVERS], 4000, np.random.default_rng(1))
    for word in ("Monday", "Friday", "Sunday", "the Rhône"):
        assert abs(sum(word in pair.source for pair in found) - 1000) < 100
