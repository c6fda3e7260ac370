"""Vocabularies restore their texts, also after saving and loading."""

import io
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import UserError
from asr.text.vocabulary import BLANK, ENGLISH, EOS, UNK, Vocabulary

# No deadline: on a busy machine an example may be slow.
patient = settings(deadline=None)
SENTENCES = ["the cat sat on the mat", "a dog ran on the road quickly", "where are the cats"]


@pytest.fixture(scope="module")
def model() -> bytes:
    """Return a sentencepiece model of 28 pieces, trained on three sentences."""
    sentencepiece = pytest.importorskip("sentencepiece")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 5),
        model_writer=written,
        vocab_size=28,
        minloglevel=2,
    )
    return written.getvalue()


@patient
@given(st.text(alphabet=ENGLISH))
def test_characters_round_trip(text: str) -> None:
    vocabulary = Vocabulary.characters()
    ids = vocabulary.encode(text)
    assert len(ids) == len(text)
    assert all(UNK < i < len(vocabulary) for i in ids)
    assert vocabulary.decode([EOS, *ids, EOS, BLANK, BLANK]) == text
    assert "".join(vocabulary.symbols(ids)) == text


@patient
@given(st.lists(st.text(), min_size=1).filter(any))
def test_any_text_round_trips_in_its_own_characters(texts: list[str]) -> None:
    vocabulary = Vocabulary.characters(texts)
    assert [vocabulary.decode(vocabulary.encode(text)) for text in texts] == texts
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_specials_hold_their_ids_and_no_text_reaches_them() -> None:
    vocabulary = Vocabulary.characters()
    assert len(vocabulary) == 31
    assert vocabulary.symbols([BLANK, EOS, UNK]) == ["<blank>", "<eos>", "<unk>"]
    assert EOS not in Vocabulary.characters(["<eos>"]).encode("<eos>")


def test_unknown_characters_become_one_mark_each() -> None:
    vocabulary = Vocabulary.characters()
    ids = vocabulary.encode("a9é")
    assert ids[1:] == [UNK, UNK]
    assert vocabulary.decode(ids) == "a\ufffd\ufffd"


def test_inventory_is_sorted_so_that_the_order_of_texts_does_not_matter() -> None:
    found = Vocabulary.characters([ENGLISH[15:], ENGLISH[:15]])
    assert "".join(found.inventory[3:]) == "".join(sorted(ENGLISH))


def test_vocabulary_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Vocabulary.characters().inventory = ()  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [-1, 31])
def test_ids_outside_are_refused(wrong: int) -> None:
    with pytest.raises(IndexError, match="31"):
        Vocabulary.characters().decode([wrong])


def test_one_text_in_place_of_several_is_refused() -> None:
    with pytest.raises(TypeError):
        Vocabulary.characters("abc")


def test_subwords_round_trip_and_travel_as_json(model: bytes) -> None:
    vocabulary = Vocabulary.subwords(model)
    for copy in (vocabulary, Vocabulary.from_json(vocabulary.to_json())):
        assert copy == vocabulary
        for text in SENTENCES:
            ids = copy.encode(text)
            assert not {BLANK, EOS, UNK} & set(ids)
            assert copy.decode([EOS, *ids, EOS, BLANK]) == text
    assert "".join(vocabulary.symbols(vocabulary.encode("the cat"))) == "▁the▁cat"


def test_subwords_skip_the_specials_of_sentencepiece(model: bytes) -> None:
    vocabulary = Vocabulary.subwords(model)
    assert len(vocabulary) == 28
    assert not {"<s>", "</s>"} & set(vocabulary.inventory)
    assert UNK in vocabulary.encode("é")
    assert "⁇" in vocabulary.decode(vocabulary.encode("the é"))


def test_subwords_survive_pickling_after_use(model: bytes) -> None:
    vocabulary = Vocabulary.subwords(model)
    ids = vocabulary.encode("the cat")
    assert pickle.loads(pickle.dumps(vocabulary)).decode(ids) == "the cat"


@pytest.mark.parametrize("wrong", [b"", b"text"])
def test_bytes_that_are_no_model_are_a_users_mistake(wrong: bytes) -> None:
    pytest.importorskip("sentencepiece")
    with pytest.raises(UserError, match="not a sentencepiece model"):
        Vocabulary.subwords(wrong)


def test_missing_model_is_a_users_mistake() -> None:
    with pytest.raises(UserError, match=r"nowhere\.model"):
        Vocabulary.subwords("nowhere.model")


SPECIALS = ["<blank>", "<eos>", "<unk>"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        '{"kind": "runes", "symbols": []}',
        json.dumps({"kind": "characters", "symbols": SPECIALS}),
        json.dumps({"kind": "characters", "symbols": ["a", "b", "c", "d"]}),
        json.dumps({"kind": "characters", "symbols": [*SPECIALS, "a", "a"]}),
        json.dumps({"kind": "characters", "symbols": [*SPECIALS, "ab"]}),
        json.dumps({"kind": "characters", "symbols": [*SPECIALS, 5]}),
        json.dumps({"kind": "characters", "symbols": "abc"}),
        json.dumps({"kind": "subwords", "sentencepiece": "?"}),
        json.dumps({"kind": "subwords", "sentencepiece": ""}),
        json.dumps({"kind": "subwords", "sentencepiece": "AAAA"}),
    ],
)
def test_nonsense_is_refused_in_one_line(content: str) -> None:
    with pytest.raises(UserError) as caught:
        Vocabulary.from_json(content)
    assert "\n" not in str(caught.value)
