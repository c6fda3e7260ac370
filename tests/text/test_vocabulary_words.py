"""Word vocabularies restore known words and mark unknown ones, also after saving and loading."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.errors import UserError
from asr.text.vocabulary import BLANK, EOS, SPECIALS, UNK, Vocabulary

TEXTS = ["go on .", "go home .", "i'm home !", "ça va ?", "ça va !"]
KNOWN = ["!", ".", "go", "home", "va", "ça"]  # those that occur twice


@given(st.lists(st.sampled_from(KNOWN)))
def test_known_words_round_trip(words: list[str]) -> None:
    vocabulary = Vocabulary.words(TEXTS)
    ids = vocabulary.encode(" ".join(words))
    assert vocabulary.symbols(ids) == words
    assert vocabulary.decode([EOS, *ids, EOS, BLANK]) == " ".join(words)


def test_inventory_is_what_was_seen_often_enough() -> None:
    assert Vocabulary.words(TEXTS).inventory == (*SPECIALS, *KNOWN)
    assert set(Vocabulary.words(TEXTS, least=1).inventory) == {
        *SPECIALS,
        *(word for text in TEXTS for word in text.split()),
    }


def test_rare_and_new_words_are_unknown_and_read_as_such() -> None:
    vocabulary = Vocabulary.words(TEXTS)
    ids = vocabulary.encode("go  away .")  # two spaces count as one
    assert ids[1] == UNK and UNK not in (ids[0], ids[2])
    assert vocabulary.decode(ids) == "go <unk> ."


def test_text_cannot_name_the_special_symbols() -> None:
    vocabulary = Vocabulary.words(["<eos> a", "<eos> a"])
    assert vocabulary.encode("<eos> <blank> a") == [UNK, UNK, len(SPECIALS)]


def test_json_round_trip() -> None:
    vocabulary = Vocabulary.words(TEXTS)
    assert json.loads(vocabulary.to_json())["kind"] == "words"
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary
    assert vocabulary.kind == "words" and Vocabulary.characters().kind == "characters"


def test_words_and_characters_of_the_same_symbols_differ() -> None:
    words, characters = Vocabulary.words(["a b"], least=1), Vocabulary.characters(["ab"])
    assert words.inventory == characters.inventory
    assert words != characters
    assert words.encode("ab") == [UNK] and UNK not in characters.encode("ab")


def test_bad_vocabularies_are_refused() -> None:
    with pytest.raises(UserError, match="only the special symbols"):
        Vocabulary.words(["each word once"])
    with pytest.raises(UserError, match="not one word"):
        Vocabulary((*SPECIALS, "two words"), spaced=True)
    with pytest.raises(TypeError, match="several texts"):
        Vocabulary.words("a text")
