"""The word model: probabilities from the formula, character scores that sum to words."""

import math

import numpy as np
import pytest

from asr.errors import UserError
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.lm.lexicon import Lexicon
from asr.lm.lookahead import WordModel
from asr.lm.word_ngrams import WordNgrams
from asr.text.vocabulary import BLANK, EOS, Vocabulary

TEXTS = [
    "the cat sat on the mat",
    "the cat sat on a log",
    "a cat and a cart",
    "the car sat",
    "on the mat the cat sat",
    "cat",
]
SENTENCES = [text.split() for text in TEXTS]
VOCABULARY = Vocabulary.characters()


def make(order=3, most=12, rare=2):
    ngrams = train_word_ngrams(SENTENCES, lexicon_of(SENTENCES, rare), order, most)
    return ngrams, WordModel(ngrams, VOCABULARY)


def by_hand(ngrams, history, word):
    """p(word | history) from the tables, by the formula of the module."""
    names = [*ngrams.words, "</s>", "<s>", "<unk>"]
    number = {name: index for index, name in enumerate(names)}
    found = ngrams.unigrams[number[word]]
    for order in range(2, len(ngrams.tables) + 2):
        context = history[len(history) - order + 1 :]
        if len(history) < order - 1:
            break
        place = number[context[0]]
        for depth, each in enumerate(context[1:]):
            code = place * len(names) + number[each]
            places = np.flatnonzero(ngrams.tables[depth].codes == code)
            place = int(places[0]) if len(places) else -1
            if place < 0:
                break
        if place < 0:
            continue
        table = ngrams.tables[order - 2]
        own = table.codes // len(names) == place
        rest = 1 - table.explicit[own].sum()
        explicit = table.explicit[table.codes == place * len(names) + number[word]].sum()
        found = explicit + rest * found
    return float(found)


def log_probability(model, text, end=True):
    """Return the sum over characters, as in a search."""
    state, total = model.start(1), 0.0
    for token in [*VOCABULARY.encode(text), *([EOS] if end else [])]:
        total += float(model.log_probs(state)[0, 0, token])
        if token != EOS:
            state = model.advance(state, np.array([[0]]), np.array([[token]]))
    return total


@pytest.mark.parametrize(("order", "most"), [(2, None), (3, None), (3, 8), (4, 14), (4, 0)])
def test_words_have_the_probabilities_of_the_formula(order, most):
    ngrams, model = make(order, most, rare=1)  # all words of the texts are known
    for text in ["the cat", "a cat sat on the mat", "log", "mat the a"]:
        history, wanted = ["<s>"], 0.0
        for word in text.split():
            wanted += math.log(by_hand(ngrams, history, word))
            history.append(word)
        wanted += math.log(by_hand(ngrams, history, "</s>"))
        assert log_probability(model, text) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("order", [2, 3])
def test_a_history_sums_to_one(order):
    ngrams, _ = make(order, None, rare=1)
    for history in (["<s>"], ["<s>", "the"], ["the", "cat"], ["mat", "mat"]):
        words = [*ngrams.words, "</s>", "<unk>"]
        total = sum(by_hand(ngrams, history, word) for word in words)
        assert total == pytest.approx(1)


@pytest.mark.parametrize("text", ["", "c", "cat", "cat ", "the c", "xyz", "the xyz ca"])
def test_the_next_letters_sum_to_one(text):
    _, model = make()
    state = model.start(1)
    for token in VOCABULARY.encode(text):
        state = model.advance(state, np.array([[0]]), np.array([[token]]))
    assert np.exp(model.log_probs(state)).sum() == pytest.approx(1, abs=1e-6)


def test_only_live_hypotheses_are_computed_and_these_are_the_same():
    _, model = make()
    state = model.start(1)
    for token in VOCABULARY.encode("the cat"):
        state = model.advance(state, np.array([[0]]), np.array([[token]]))
    parents, tokens = np.zeros((1, 3), np.int64), np.array([VOCABULARY.encode("s a")])
    alive = np.array([[True, False, True]])
    every, some = (
        model.advance(state, parents, tokens),
        model.advance(state, parents, tokens, alive),
    )
    np.testing.assert_array_equal(model.log_probs(some)[alive], model.log_probs(every)[alive])
    assert not model.log_probs(some)[~alive].any() and model.log_probs(every)[~alive].any()


def test_what_was_seen_is_likelier():
    _, model = make()
    assert log_probability(model, "the cat sat") > log_probability(model, "the sat cat")
    assert log_probability(model, "the cat sat") > log_probability(model, "the qat sat")
    assert log_probability(model, "qqq") > -60  # no word has probability 0


def test_hypotheses_of_a_batch_are_independent():
    _, model = make()
    texts = [["the cat ", "a cart "], ["on the c", "xyzzy th"]]
    state = model.advance(model.start(2), np.zeros((2, 2), np.int64), _tokens(texts, 0))
    own = np.array([[0, 1], [0, 1]])
    for place in range(1, 7):
        state = model.advance(state, own, _tokens(texts, place))
    swapped = model.advance(state, np.array([[1, 0], [0, 0]]), _tokens(texts, 7)[:, [0, 0]])
    for row, column, text in [(0, 0, "a cart "), (0, 1, "the cat"), (1, 1, "on the c")]:
        alone = model.start(1)
        last = VOCABULARY.decode([int(_tokens(texts, 7)[row, 0])])
        for token in VOCABULARY.encode(text[:7]) + VOCABULARY.encode(last):
            alone = model.advance(alone, np.array([[0]]), np.array([[token]]))
        np.testing.assert_allclose(
            model.log_probs(swapped)[row, column], model.log_probs(alone)[0, 0], rtol=1e-9
        )


def _tokens(texts, place):
    """Return character `place` of each text; a space if a text is too short."""
    return np.array([[VOCABULARY.encode(text.ljust(8)[place])[0] for text in row] for row in texts])


def test_a_saved_model_says_nearly_the_same(tmp_path):
    ngrams, model = make()
    ngrams.save(tmp_path / "words.npz")
    loaded = WordModel.load(tmp_path / "words.npz", VOCABULARY)
    for text in ["the cat sat", "a log"]:
        assert log_probability(loaded, text) == pytest.approx(
            log_probability(model, text), abs=0.08 * (len(text.split()) + 1)
        )


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "words.npz").write_bytes(b"no model")
    with pytest.raises(UserError, match="not a word n-gram model"):
        WordNgrams.load(tmp_path / "words.npz")
    with pytest.raises(UserError, match="cannot read"):
        WordNgrams.load(tmp_path / "missing.npz")
    with pytest.raises(UserError, match="no text"):
        train_word_ngrams([], [])


def cut_last(array):
    return array[:-1]


@pytest.mark.parametrize(
    ("name", "change", "wanted"),
    [
        ("unigrams", cut_last, "not probabilities of its words"),
        ("unigrams", np.negative, "not probabilities of its words"),
        ("unigrams", np.zeros_like, "do not sum"),
        ("follow2", cut_last, "not those of its contexts"),
        ("last2", cut_last, "not those of its contexts"),
        ("last2", lambda last: last + 200, "not those of its contexts"),
        ("last2", np.zeros_like, "not sorted"),
        ("levels2", cut_last, "not those of its contexts"),
        ("levels3", lambda levels: levels.astype(np.float32), "not a list of counts"),
        ("follow3", lambda follow: np.zeros(10_000, follow.dtype), "other sizes"),
        ("format", lambda _: np.array(99), "format 99"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_refused(tmp_path, name, change, wanted):
    path = tmp_path / "words.npz"
    make()[0].save(path)
    arrays = dict(np.load(path))
    np.savez(path, **arrays)
    assert len(WordNgrams.load(path).tables) >= 2
    np.savez(path, **arrays | {name: change(arrays[name])})
    with pytest.raises(UserError, match=f"not a word n-gram model: .*{wanted}"):
        WordNgrams.load(path)


def test_a_search_without_letters_is_refused():
    ngrams, _ = make()
    for vocabulary in (Vocabulary.words(TEXTS), Vocabulary.characters(["abc"])):
        with pytest.raises(UserError, match="vocabulary of characters"):
            WordModel(ngrams, vocabulary)


def test_a_lexicon_knows_what_a_beginning_may_become():
    words = ["a", "car", "cart", "cat", "dart"]
    lexicon = Lexicon(words, VOCABULARY)
    for beginning in ["", "a", "c", "ca", "car", "cart", "cat", "b", "carts"]:
        node = 0
        for token in VOCABULARY.encode(beginning):
            node = int(lexicon.child(np.array([node]), np.array([token]))[0])
        found = words[int(lexicon.first[node]) : int(lexicon.after[node])]
        assert found == [word for word in words if word.startswith(beginning)]
        assert bool(lexicon.whole[node]) == (beginning in words)
        longer = {word[len(beginning) :][:1] for word in found} - {""}
        rows, characters, nodes = lexicon.continuations(np.array([-1, node, 0]))
        assert sorted(rows.tolist()) == rows.tolist() and 0 not in rows
        own = dict(zip(characters[rows == 1].tolist(), nodes[rows == 1].tolist(), strict=True))
        assert own.pop(BLANK, None) == (node if beginning in words else None)
        assert set(own) == {VOCABULARY.encode(each)[0] for each in longer}
        for token, after in own.items():
            assert lexicon.child(np.array([node]), np.array([token])) == after
        assert set(characters[rows == 2].tolist()) == set(VOCABULARY.encode("acd"))
    for wrong in ([], ["b", "a"], ["a", "a"]):
        with pytest.raises(ValueError, match="sorted"):
            Lexicon(wrong, VOCABULARY)
