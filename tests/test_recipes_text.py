"""The scripts of the translation recipes: fixed lists, quantised copies, and scores."""

import gzip
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from asr.corpora.pairs import read_classes, read_pairs, read_sentences, sentence_key
from asr.errors import UserError
from asr.inference.translator import Translator
from asr.model_folder import Usage
from asr.models.folder import WEIGHTS, read_folder, read_weights, save_folder
from asr.models.settings import (
    AttentionSettings,
    DecoderSettings,
    TextualSettings,
    TranslationSettings,
)
from asr.models.translation import build_translation_model
from asr.tables import to_table
from asr.text.vocabulary import Vocabulary

RECIPES = Path(__file__).parents[1] / "recipes"
SPLIT = runpy.run_path(str(RECIPES / "fra_eng" / "split.py"))
SHIP = runpy.run_path(str(RECIPES / "ship.py"))
AVERAGE = runpy.run_path(str(RECIPES / "average.py"))
SCORE = runpy.run_path(str(RECIPES / "multi30k" / "score.py"))
DIVERSIFY = runpy.run_path(str(RECIPES / "multi30k" / "diversify.py"))
TINY = """
task = "translation"
[data]
{paths}
[model.encoder]
embedding_size = 8
state_size = 8
[model.attention]
size = 8
[model.decoder]
embedding_size = 8
state_size = 12
readout_size = 8
[training]
steps = 2
validate_every = 1
average = 0.0
"""
VOCABULARY = Vocabulary.words(["go home . i lost va chez toi !"], least=1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    settings = TranslationSettings(
        encoder=TextualSettings(embedding_size=8, state_size=8),
        attention=AttentionSettings(size=8),
        decoder=DecoderSettings(embedding_size=8, state_size=12, readout_size=8),
    )
    vocabulary = VOCABULARY.to_json()
    save_folder(
        tmp_path / "model",
        task="translation",
        model=to_table(settings),
        vocabularies={"source": vocabulary, "target": vocabulary},
        state=build_translation_model(settings, len(VOCABULARY), len(VOCABULARY)).state_dict(),
        notes={},
    )
    return tmp_path / "model"


def score(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["score.py", *map(str, arguments)])
    SCORE["main"]()


@pytest.mark.parametrize("recipe", ["fra_eng", "deu_eng"])
def test_lists_are_fixed_apart_and_leave_what_is_shown_or_added(recipe: str) -> None:
    test, dev = (
        {sentence_key(each) for each in read_sentences(RECIPES / recipe / name)}
        for name in ("test.txt", "dev.txt")
    )
    assert len(test) == len(dev) == 1000 and not test & dev
    extra = {sentence_key(pair.source) for pair in read_pairs(RECIPES / recipe / "everyday.tsv")}
    assert len(extra) > 100
    assert not ({sentence_key(each) for each in SPLIT["SHOWN"]} | extra) & (test | dev)


@pytest.mark.parametrize("recipe", ["fra_eng", "deu_eng"])
def test_words_to_exchange_are_each_in_one_class(recipe: str) -> None:
    classes = read_classes(RECIPES / recipe / "exchange.tsv")
    words = [pair for each in classes for pair in each]
    assert len(set(words)) == len(words) > 150


def test_the_choice_follows_from_the_sentences_alone() -> None:
    sentences = [f"Sentence {number}." for number in range(50)] + ["Go.", "SENTENCE 7!"]
    test, dev = SPLIT["choose"](sentences, 10)
    assert (sorted(test), sorted(dev)) == tuple(
        sorted(each) for each in SPLIT["choose"](sentences[:50], 10)
    )
    assert len(set(test) | set(dev)) == 20 and "Go." not in test + dev


def test_a_copy_translates_the_same(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ship.py", str(model), str(tmp_path / "copy")])
    SHIP["main"]()
    texts = ["Go home.", "I lost!"]
    one, other = (Translator.load(each).translate(texts) for each in (model, tmp_path / "copy"))
    assert [each.text for each in one] == [each.text for each in other]
    monkeypatch.setattr(sys, "argv", ["ship.py", str(model), str(tmp_path / "b"), "--most", "0"])
    with pytest.raises(UserError, match="more than 0 MB"):
        SHIP["main"]()


def test_models_are_averaged_weight_by_weight(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def average(*shares: str) -> dict[str, torch.Tensor]:
        target = tmp_path / "mean"
        asked = ("--shares", *shares) if shares else ()
        monkeypatch.setattr(
            sys, "argv", ["average.py", str(model), str(other), str(target), *asked]
        )
        AVERAGE["main"]()
        assert Translator.load(target).source == Translator.load(model).source
        assert read_folder(target).usage == read_folder(model).usage
        return read_weights(target / WEIGHTS)

    other = tmp_path / "other"
    folder, ones = read_folder(model), read_weights(model / WEIGHTS)
    threes = {name: 3 * value for name, value in ones.items()}
    usage = Usage(decoding={"beam": 3})
    save_folder(other, folder.task, folder.model, folder.vocabularies, threes, {}, usage=usage)
    for name, value in average().items():
        assert torch.allclose(value, 2 * ones[name])
    for name, value in average("1", "3").items():
        assert torch.allclose(value, 2.5 * ones[name])
    for name, value in average("2", "-1").items():
        assert torch.allclose(value, -ones[name])
    with pytest.raises(UserError, match="got 2 models and the shares"):
        average("1")
    save_folder(other, folder.task, {**folder.model, "joint_embedding": True}, {}, threes, {})
    with pytest.raises(UserError, match="other: sizes or vocabularies differ"):
        average()


def test_what_a_list_names_is_scored_against_all_translations(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sacrebleu")
    said = Translator.load(model).translate("Go home.", beam=5).text
    pairs = f"Go home.\tother words\nGo home.\t{said or '.'}\nI lost.\tx\n"
    (tmp_path / "pairs.gz").write_bytes(gzip.compress(pairs.encode()))
    (tmp_path / "list.txt").write_text("go home\n")
    sources, references = SCORE["listed"](tmp_path / "pairs.gz", tmp_path / "list.txt")
    assert sources == ["Go home."] and references == [("other words", said or ".")]
    output = tmp_path / "out.txt"
    arguments = ["--pairs", tmp_path / "pairs.gz", "--list", tmp_path / "list.txt"]
    score(monkeypatch, "-m", model, "-m", model, *arguments, "--output", output)
    assert output.read_text("utf-8") == f"{said}\n"
    assert "1 sentences, beam 5" in capsys.readouterr().out


def test_parallel_files_are_scored_and_by_tokens_too(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sacrebleu")
    # Simple rules instead of Moses', so that sacremoses is not required.
    monkeypatch.setitem(SCORE["main"].__globals__, "moses", lambda language: str.lower)
    (tmp_path / "a.en").write_text("Go home.\nI lost.\n")
    (tmp_path / "a.de").write_text("Va .\nChez toi .\n")
    (tmp_path / "tok.de").write_text("va .\nchez moi .\n")
    files = ["--source", tmp_path / "a.en", "--reference", tmp_path / "a.de"]
    score(monkeypatch, "-m", model, *files, "--tokens", tmp_path / "tok.de")
    out = capsys.readouterr().out
    assert "2 sentences" in out and "tok:13a" in out and "source words" in out
    assert "tokens of tok.de (1 of 2 references are tokenised as in the file)" in out
    with pytest.raises(SystemExit):
        score(monkeypatch, "-m", model, "--source", tmp_path / "a.en")


def loudly(self: Translator, texts: list[str], **how: Any) -> list[SimpleNamespace]:
    """Translate into capitals, which differ from all references; "go ." becomes empty."""
    assert how == {"beam": 1, "length_penalty": 0.8, "whole": True}
    return [SimpleNamespace(text="" if text == "go ." else text.upper()) for text in texts]


def test_a_student_learns_from_people_and_from_teachers_of_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [("go home .", "va chez toi !"), ("i lost .", "toi !"), ("go .", "va !")] * 2
    for side, language in enumerate(("en", "fr")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"train.{language}").write_text(text, "utf-8")
    for source, target in (("en", "fr"), ("fr", "en")):
        paths = "".join(
            f'{name} = "train.{source}"\n{name}_target = "train.{target}"\n'
            for name in ("train", "dev")
        )
        (tmp_path / f"{source}-{target}.toml").write_text(TINY.format(paths=paths))
    runs = tmp_path / "runs"
    words = ["diversify.py", runs, "--data", tmp_path, "--teachers", 1, "--steps", 3, "--beam", 1]
    ways = ["--forward", tmp_path / "en-fr.toml", "--backward", tmp_path / "fr-en.toml"]
    (tmp_path / "more.fr").write_text("va chez moi !\n\nva chez toi !\n", "utf-8")
    (tmp_path / "more.en").write_text("i go .\n", "utf-8")
    more = ["--target-text", tmp_path / "more.fr", "--source-text", tmp_path / "more.en"]
    more += ["--students", 2]
    monkeypatch.setattr(sys, "argv", [*map(str, (*words, *ways, *more))])
    monkeypatch.setattr(Translator, "translate", loudly)
    DIVERSIFY["main"]()
    wanted = [*pairs]
    wanted += [(source, source.upper()) for source, _ in pairs if source != "go ."]
    wanted += [("i go .", "I GO .")]
    targets = [*(target for _, target in pairs), "va chez moi !", "va chez toi !"]
    wanted += [(target.upper(), target) for target in targets]
    written = [
        (runs / f"student.{side}").read_text().split("\n")[:-1] for side in ("source", "target")
    ]
    assert list(zip(*written, strict=True)) == wanted
    models = [runs / f"student-{seed}" / "model" / "model.safetensors" for seed in (1, 2)]
    before = [model.stat().st_mtime_ns for model in models]
    assert models[0].read_bytes() != models[1].read_bytes()
    monkeypatch.setitem(
        DIVERSIFY["teach"].__globals__, "run_to_end", None
    )  # finished models are not trained again
    DIVERSIFY["main"]()
    assert [model.stat().st_mtime_ns for model in models] == before
    monkeypatch.setattr(sys, "argv", [*map(str, (*words, *ways))])  # with the new arguments
    DIVERSIFY["main"]()
    assert len((runs / "student.source").read_text().splitlines()) == len(wanted) - 3
    (runs / "fr-en-1" / "translations.txt").write_text("one line\n")
    with pytest.raises(UserError, match="got 1 lines, wanted 6; remove it"):
        DIVERSIFY["main"]()


def test_two_files_of_one_name_are_not_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more").mkdir()
    texts = [tmp_path / "a.fr", tmp_path / "more" / "a.fr"]
    for text in texts:
        text.write_text("va !\n")
    (tmp_path / "en-fr.toml").write_text(TINY.format(paths='train = "a.fr"\ntrain_target = "a.fr"'))
    words = ["diversify.py", tmp_path, "--data", tmp_path, "--forward", tmp_path / "en-fr.toml"]
    monkeypatch.setattr(sys, "argv", [*map(str, (*words, "--target-text", *texts))])
    with pytest.raises(UserError, match="two files have this name"):
        DIVERSIFY["main"]()
