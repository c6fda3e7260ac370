"""What is made of pairs keeps both sides together, and follows from the seed."""

import re

import numpy as np

from asr.corpora.pairs import Pair
from asr.corpora.variants import join, rename, spoken


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
    assert 50 < rare < 150  # 1 / (1 + 100 / 10) of them; evenly it would be 1 / 101
