"""A recurrent model interpolated with n-grams: the mixture, character sums, and its folder."""

import math

import numpy as np
import pytest
import torch
from test_lookahead import SENTENCES, TEXTS, VOCABULARY, by_hand, log_probability

from asr.errors import UserError
from asr.lm.estimation import lexicon_of, train_word_ngrams
from asr.lm.lookahead import RECURRENT_SHARE, WordModel
from asr.lm.recurrent import EMBEDDING, LSTMWords, RecurrentWords
from asr.models.folder import save_folder
from asr.models.language import build_language_model
from asr.models.settings import LanguageSettings
from asr.tables import to_table
from asr.text.vocabulary import EOS, SPECIALS, UNK, Vocabulary
from asr.weights import SCALE, StoredWeights, read_arrays

# The recurrent model lacks "log" and "cart", the n-grams lack "dog".
KNOWN = Vocabulary(
    (*SPECIALS, "the", "cat", "sat", "on", "a", "mat", "dog", "and", "car"), None, True
)
SETTINGS = LanguageSettings(5, 6, 4, (6,), 0.0)


def make(rare=1):
    torch.manual_seed(1)
    network = build_language_model(SETTINGS, len(KNOWN)).eval()
    for each in network.parameters():
        torch.nn.init.normal_(each)  # larger logits
    ngrams = train_word_ngrams(SENTENCES, lexicon_of(SENTENCES, rare), 3, 12)
    recurrent = RecurrentWords(at_run_time(network), KNOWN, ngrams.words, ngrams.unigrams)
    return network, ngrams, WordModel(ngrams, VOCABULARY, recurrent)


def at_run_time(network):
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    return LSTMWords(StoredWeights(weights))


@pytest.mark.parametrize("cutoffs", [(), (6,), (4, 7), (4, 7, 10)])
def test_steps_are_those_of_the_trained_model(cutoffs):
    torch.manual_seed(3)
    network = build_language_model(LanguageSettings(5, 6, 4, cutoffs, 0.0), len(KNOWN)).eval()
    model, state = at_run_time(network), network.start(3)
    output = cell = np.zeros((3, 6), np.float32)
    for words in ([1, 4, 11], [3, 3, 9], [6, 10, 5]):
        log_probs, state = network.step(torch.tensor(words), state)
        probabilities, output, cell = model.step(np.array(words), output, cell)
        np.testing.assert_allclose(np.log(probabilities), log_probs.detach(), atol=1e-5)
        np.testing.assert_allclose(output, state.output.detach(), atol=1e-6)
        np.testing.assert_allclose(cell, state.cell.detach(), atol=1e-6)


def test_an_embedding_that_stays_in_8_bits_gives_the_same_probabilities(tmp_path):
    network, *_ = make()
    vocabularies = {"words": KNOWN.to_json()}
    save_folder(
        tmp_path, "language", to_table(SETTINGS), vocabularies, network.state_dict(), {}, bits=8
    )
    file = tmp_path / "model.safetensors"
    unpacked, packed = read_arrays(file), read_arrays(file, packed=[EMBEDDING])
    assert packed[EMBEDDING].dtype == np.int8 and unpacked[EMBEDDING].dtype == np.float32
    assert packed.keys() == {*unpacked, EMBEDDING + SCALE}
    zeros, words = np.zeros((3, 6), np.float32), np.array([1, 4, 11])
    for wanted, found in zip(
        LSTMWords(unpacked).step(words, zeros, zeros),
        LSTMWords(packed).step(words, zeros, zeros),
        strict=True,
    ):
        np.testing.assert_array_equal(found, wanted)
    shorter = {**packed, EMBEDDING + SCALE: packed[EMBEDDING + SCALE][1:]}
    with pytest.raises(ValueError, match=r"embedding\.weight\.scale"):
        LSTMWords(StoredWeights(shorter, packed=[EMBEDDING]))


def by_recurrence(network, ngrams, words):
    """p(last word | the others), words unknown to it by their share of the rest."""
    state = network.start(1)
    for name in ["", *words[:-1]]:
        fed = torch.tensor([KNOWN.encode(name)[0] if name else EOS])
        log_probs, state = network.step(fed, state)
    probabilities = dict(zip(KNOWN.inventory, log_probs[0].exp().tolist(), strict=True))
    known = [word for word in ngrams.words if KNOWN.encode(word) != [UNK]]
    if words[-1] in known:
        return probabilities[words[-1]]
    unigrams = {word: ngrams.unigrams[at] for at, word in enumerate(ngrams.words)}
    others = sum(p for word, p in unigrams.items() if word not in known) + ngrams.unigrams[-1]
    return (1 - sum(probabilities[word] for word in known)) * unigrams[words[-1]] / others


@pytest.mark.parametrize("text", ["the cat", "a cat sat on the mat", "log", "the log a cart sat"])
def test_words_have_the_probabilities_of_the_mixture(text):
    network, ngrams, model = make()
    words, wanted = text.split(), 0.0
    for place, word in enumerate(words):
        history = ["<s>", *words[:place]]
        goes_on = 1 - by_hand(ngrams, history, "</s>")
        own = by_recurrence(network, ngrams, words[: place + 1]) * goes_on
        both = (1 - RECURRENT_SHARE) * by_hand(ngrams, history, word) + RECURRENT_SHARE * own
        wanted += math.log(both)
    wanted += math.log(by_hand(ngrams, ["<s>", *words], "</s>"))
    assert log_probability(model, text) == pytest.approx(wanted, abs=1e-4)


def test_texts_read_together_are_as_read_alone():
    network, ngrams, _ = make()
    recurrent = RecurrentWords(at_run_time(network), KNOWN, ngrams.words, ngrams.unigrams)
    number = {word: at for at, word in enumerate(ngrams.words)}
    texts = [["the", "cat"], ["a", "cat"], ["the", "cat"], ["a", "mat"], ["cat", "the"]]
    together = [recurrent.start()] * 5
    for place in range(2):
        together = recurrent.after(together, [number[text[place]] for text in texts])
    for row, text in enumerate(texts):
        alone = recurrent.start()
        for word in text:
            (alone,) = recurrent.after([alone], [number[word]])
        np.testing.assert_allclose(together[row].sums, alone.sums, atol=1e-6)
        np.testing.assert_allclose(together[row].cell, alone.cell, atol=1e-6)
    assert len({id(each) for each in together}) == 4  # equal histories are computed once


def test_rare_words_keep_their_probability():
    network, ngrams, _ = make()
    rare = KNOWN.encode("the")[0]  # the last of the lexicon, after almost all probability
    with torch.no_grad():
        network.first.bias[rare] -= 12
    model = at_run_time(network)
    recurrent = RecurrentWords(model, KNOWN, ngrams.words, ngrams.unigrams)
    zeros = np.zeros((1, 6), np.float32)
    wanted = model.step(np.array([EOS]), zeros, zeros)[0][0, rare]
    place = np.array([ngrams.words.index("the")])
    (found,) = recurrent.range([recurrent.start()], [1], place, place + 1)
    assert wanted < 1e-5 and found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("text", ["", "c", "cat", "cat ", "the c", "xyz", "the xyz ca", "a log "])
def test_the_next_letters_sum_to_one(text):
    *_, model = make(rare=2)
    state = model.start(1)
    for token in VOCABULARY.encode(text):
        state = model.advance(state, np.array([[0]]), np.array([[token]]))
    assert np.exp(model.log_probs(state)).sum() == pytest.approx(1, abs=1e-5)


def test_hypotheses_of_a_batch_are_independent():
    *_, model = make()
    texts = [["the cat sat ", "a cart and c"], ["on the mat t", "xyzzy then a"]]
    state = model.start(2)
    for place in range(12):
        letters = [[VOCABULARY.encode(text)[place] for text in row] for row in texts]
        parents = np.array([[0, 1]] * 2 if place else [[0, 0]] * 2)
        state = model.advance(state, parents, np.array(letters))
    swapped = np.array([[1, 0], [0, 1]])
    state = model.advance(state, swapped, np.array([[VOCABULARY.encode("a")[0]] * 2] * 2))
    found = model.log_probs(state)
    for row, column in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        alone = model.start(1)
        for token in VOCABULARY.encode(texts[row][int(swapped[row, column])] + "a"):
            alone = model.advance(alone, np.array([[0]]), np.array([[token]]))
        np.testing.assert_allclose(
            found[row, column], model.log_probs(alone)[0, 0], rtol=1e-4, atol=1e-4
        )


def test_a_folder_beside_the_ngrams_is_taken(tmp_path):
    network, ngrams, model = make()
    ngrams.save(tmp_path / "words.npz")
    alone = WordModel.load(tmp_path / "words.npz", VOCABULARY)
    table, words = to_table(SETTINGS), {"words": KNOWN.to_json()}
    save_folder(tmp_path / "words", "language", table, words, network.state_dict(), {})
    both = WordModel.load(tmp_path / "words.npz", VOCABULARY)
    for text in TEXTS[:2]:
        found = log_probability(both, text)
        assert found == pytest.approx(log_probability(model, text), abs=0.5)
        assert abs(found - log_probability(alone, text)) > 1
    (tmp_path / "words" / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no weights"):
        WordModel.load(tmp_path / "words.npz", VOCABULARY)
