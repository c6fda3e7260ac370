"""The translator: results do not depend on the batch, and weights belong to the tokens."""

from pathlib import Path

import numpy as np
import pytest
import torch

from asr.errors import UserError
from asr.inference.translator import Translator
from asr.models.folder import save_folder
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import build_translation_model
from asr.runtime.torch_engine import TorchTextEngine
from asr.tables import to_table
from asr.text.capitals import is_in_capitals, sentence_case
from asr.text.vocabulary import Vocabulary
from asr.translation import Translation

SETTINGS = TranslationSettings(
    encoder=TextualSettings(embedding_size=8, state_size=8),
    attention=AttentionSettings(size=8),
    decoder=DecoderSettings(embedding_size=8, state_size=12, readout_size=8),
)
SOURCE = Vocabulary.words(["go . i lost . i'm home !"], least=1)
TARGET = Vocabulary.words(["va ! j'ai perdu . je suis chez moi ."], least=1)
TEXTS = ["I lost.", "Go!", "I'm home, I'm home, go home.", "Go home."]


@pytest.fixture
def translator() -> Translator:
    """Return an untrained model, whose output depends on the source."""
    torch.manual_seed(3)
    model = build_translation_model(SETTINGS, len(SOURCE), len(TARGET)).eval()
    for parameter in model.parameters():
        parameter.data *= 3  # larger logits
    return Translator((TorchTextEngine(model),), SOURCE, TARGET)


def assert_same(one: Translation, other: Translation) -> None:
    assert one.text == other.text and one.target_tokens == other.target_tokens
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_text_in_a_batch_is_translated_as_alone(translator: Translator, beam: int) -> None:
    together = translator.translate(TEXTS, beam=beam)
    assert [each.source for each in together] == TEXTS
    assert len({each.text for each in together}) > 1  # outputs differ
    for text, each in zip(TEXTS, together, strict=True):
        assert_same(each, translator.translate(text, beam=beam))


def test_batches_of_any_size_give_the_same(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = translator.translate(TEXTS)
    monkeypatch.setattr("asr.inference.translator.BATCH_TOKENS", 8)
    for one, other in zip(translator.translate(TEXTS), expected, strict=True):
        assert_same(one, other)


def test_the_sentences_in_capitals_of_a_text_stay_in_capitals(translator: Translator) -> None:
    (plain,) = translator.translate(["Go home."])
    found = translator.translate("GO HOME. Go home. I.")
    assert found.text.startswith(f"{plain.text.upper()} {plain.text} ")
    weights = found.words_of_sentences[0].weights
    np.testing.assert_allclose(weights, plain.words.weights, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- WHERE AM I? I'M LOST!", "- Where am I? I'm lost!"),
        ("ÉCOUTEZ", "Écoutez"),
        ("OK", "Ok"),
        ("I.", None),
        ("A 5", None),
        ("I SAW Tom", None),
        ("我爱你", None),
        ("", None),
    ],
)
def test_sentences_of_texts_in_capitals(text: str, sentence: str | None) -> None:
    assert is_in_capitals(text) == (sentence is not None)
    if sentence is not None:
        assert sentence_case(text) == sentence


def test_weights_belong_to_the_tokens(translator: Translator) -> None:
    for found in translator.translate(TEXTS):
        assert found.source_tokens[-1] == found.target_tokens[-1] == "<eos>"
        assert found.weights.shape == (len(found.target_tokens), len(found.source_tokens))
        np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-5)
        assert found.text == " ".join(found.target_tokens[:-1])


def test_sources_are_tokenised_as_in_training(translator: Translator) -> None:
    found = translator.translate("I\u2019m  HOME!")
    assert found.source_tokens == ("i'm", "home", "!", "<eos>")
    assert_same(found, translator.translate("i'm home !"))
    assert translator.translate("You lost.").source_tokens[0] == "<unk>"


def test_sentences_are_translated_one_by_one_unless_they_are_to_be_one(
    translator: Translator,
) -> None:
    first, second = translator.translate(["I lost.", "Go home!"])
    both = translator.translate("I lost. Go home!")
    assert both.source == "I lost. Go home!" and both.text == f"{first.text} {second.text}"
    assert both.target_tokens == (*first.target_tokens[:-1], *second.target_tokens)
    assert both.words.source == (*first.words.source[:-1], *second.words.source)
    assert both.log_probability == pytest.approx(first.log_probability + second.log_probability)
    np.testing.assert_allclose(both.weights.sum(1), 1, atol=1e-5)
    whole = translator.translate("I lost. Go home!", whole=True)
    assert whole.text != both.text


def test_blank_lines_are_kept_and_end_a_sentence(translator: Translator) -> None:
    first, second = translator.translate(["I lost", "Go home!"])
    both = translator.translate("I lost\n \nGo home!\n\n")
    assert both.text == f"{first.text}\n \n{second.text}\n\n"
    assert both.words.source == (*first.words.source[:-1], *second.words.source)


def test_a_beam_needs_a_hypothesis(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"beam must be from 1 .* got 0"):
        translator.translate("Go!", beam=0)


def test_nothing_in_is_nothing_out(translator: Translator) -> None:
    assert translator.translate([]) == []
    blank, text = translator.translate([" \t", "Go!"])
    assert (blank.text, blank.source, blank.weights.shape) == ("", " \t", (1, 1))
    assert_same(text, translator.translate("Go!"))


def test_a_model_folder_brings_the_translator_back(translator: Translator, tmp_path: Path) -> None:
    save_folder(
        tmp_path / "model",
        task="translation",
        model=to_table(SETTINGS),
        vocabularies={"source": SOURCE.to_json(), "target": TARGET.to_json()},
        state=translator.engines[0].model.state_dict(),
        notes={},
    )
    loaded = Translator.load(tmp_path / "model")
    for one, other in zip(translator.translate(TEXTS), loaded.translate(TEXTS), strict=True):
        assert_same(one, other)
    with pytest.raises(UserError, match="nonsense"):
        Translator.load(tmp_path / "model", device="nonsense")


def save(translator: Translator, folder: Path, target: Vocabulary = TARGET) -> Path:
    save_folder(
        folder,
        task="translation",
        model=to_table(SETTINGS),
        vocabularies={"source": SOURCE.to_json(), "target": target.to_json()},
        state=translator.engines[0].model.state_dict(),
        notes={},
    )
    return folder


def test_models_vote_and_must_speak_of_the_same(translator: Translator, tmp_path: Path) -> None:
    first = save(translator, tmp_path / "first")
    twice = Translator.load([first, first])
    assert len(twice.engines) == 2
    for one, other in zip(translator.translate(TEXTS), twice.translate(TEXTS), strict=True):
        assert_same(one, other)
    renamed = Vocabulary((*TARGET.inventory[:-1], "zut"), spaced=True)
    with pytest.raises(UserError, match=r"second: its vocabularies differ from .*first"):
        Translator.load([first, save(translator, tmp_path / "second", renamed)])
    with pytest.raises(UserError, match="got no model folder"):
        Translator.load([])


def test_the_model_of_the_package_is_taken_by_its_language(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {"fr": save(translator, tmp_path / "french"), "de": tmp_path / "german"}
    monkeypatch.setattr("asr.inference.translator.SHIPPED", folders)
    assert_same(Translator.load().translate("Go!"), translator.translate("Go!"))
    with pytest.raises(UserError, match="the package has no translation model to 'de'"):
        Translator.load(to="de")
    german = Vocabulary((*TARGET.inventory[:-1], "zut"), spaced=True)
    save(translator, folders["de"], german)
    assert Translator.load(to="de").target == german != Translator.load(to="fr").target
    with pytest.raises(UserError, match=r"got language 'nl'; .* to fr, de"):
        Translator.load(to="nl")


def test_a_length_penalty_of_zero_ends_sooner(translator: Translator) -> None:
    mean = translator.translate(TEXTS, beam=4)
    total = translator.translate(TEXTS, beam=4, length_penalty=0.0)
    lengths = [sum(len(each.target_tokens) for each in found) for found in (total, mean)]
    assert lengths[0] < lengths[1]
    with pytest.raises(UserError, match="length_penalty must be from 0 to 1"):
        translator.translate("Go!", length_penalty=-1.0)


def test_weights_between_words_name_unknown_ones_too(translator: Translator) -> None:
    found = translator.translate("You lost!")
    assert found.words.source == ("you", "lost", "!", "<eos>")
    assert found.words.target == found.target_tokens
    np.testing.assert_array_equal(found.words.weights, found.weights)


def test_what_is_no_translation_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        Translator.load(tmp_path)
    empty = {"model": {}, "state": {}, "notes": {}}
    save_folder(tmp_path / "speech", task="speech", vocabularies={}, **empty)
    with pytest.raises(UserError, match="a model for speech"):
        Translator.load(tmp_path / "speech")
    save_folder(tmp_path / "half", "translation", vocabularies={"target": "{}"}, **empty)
    with pytest.raises(UserError, match=r"without source\.json"):
        Translator.load(tmp_path / "half")
