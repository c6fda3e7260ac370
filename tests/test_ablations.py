"""The ablations: toy tasks, cuts, and each command end to end at the smallest scale."""

import importlib
import itertools
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tiny_model import write_tiny_model
from tones import write_tones

from asr.attention import Annotations
from asr.audio.read import read
from asr.audio.speech import speech_mask
from asr.corpora.manifest import ANYWHERE, Utterance, read_manifest, write_manifest
from asr.corpora.pairs import Pair
from asr.errors import UserError
from asr.inference.loaded import LoadedModel
from asr.inference.options import DecodingOptions
from asr.inference.pieces import Piece, whole
from asr.inference.recognizer import Recognizer
from asr.inference.translator import SHIPPED, Translator
from asr.models.translation import build_translation_model
from asr.results import Segment, Span
from asr.scoring.words import count_words
from asr.tables import to_table
from asr.text.vocabulary import EOS
from asr.training.config import load_config

RECIPES = Path(__file__).parents[1] / "recipes"
WORDS = RECIPES / "fra_eng" / "words.toml"


def load(name: str, recipe: str = "ablations") -> ModuleType:
    """Import a script of a recipe, which can import its neighbours as if it were run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(RECIPES / recipe))
        return importlib.import_module(name)


runs, toys, summary, paths = map(load, ("runs", "toys", "summary", "paths"))
kinds, speech, hours, pauses = map(load, ("kinds", "speech", "hours", "pauses"))
lengths, decoding, dev_scores = map(load, ("lengths", "decoding", "dev_scores"))


def start(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, *arguments: str | Path | int
) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
    module.main()


def rows(table: Path) -> list[list[str]]:
    """Return the rows of all Markdown tables of a file as cells, headers included."""
    lines = [line for line in table.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[each.strip() for each in line.strip("|").split("|")] for line in lines]


def check_what_is_written(folder: Path, name: str, printed: str) -> None:
    """Check that a command writes a picture and the tables that it prints."""
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / f"{name}.md").read_text("utf-8") == printed


# toys


@pytest.mark.parametrize(
    ("toy", "numbers", "wanted"),
    [
        ("primes", [4, 7, 2, 9, 7, 0, 1, 47], [47, 7, 2, 7]),
        ("primes", [49, 1, 0, 33], []),
        ("reverse", [3, 1, 1, 2], [2, 1, 1, 3]),
        ("copy", [3, 1, 1, 2], [3, 1, 1, 2]),
        ("sort", [3, 1, 40, 1, 2], [1, 1, 2, 3, 40]),
    ],
)
def test_toys_by_hand(toy, numbers, wanted):
    assert toys.TOYS[toy](numbers) == wanted


def test_primes_by_hand():
    assert sorted(toys.PRIMES) == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]


@pytest.mark.parametrize("toy", toys.TOYS)
def test_data_follow_from_the_seed_and_no_list_is_there_twice(toy):
    sizes = toys.Sizes(train=800, test=200, beyond=100)
    data = toys.make_data(toy, 1, sizes)
    assert data == toys.make_data(toy, 1, sizes) != toys.make_data(toy, 2, sizes)
    parts = (data.train, data.test, data.beyond)
    assert [len(part) for part in parts] == [800, 200, 100]
    assert len({tuple(each.source) for part in parts for each in part}) == 1100
    for part, (least, most) in zip(parts, (toys.TRAINED, toys.TRAINED, toys.BEYOND), strict=True):
        assert {len(each.source) - 1 for each in part} == set(range(least, most + 1))
        for each in part:
            assert each.source[-1] == EOS and EOS not in each.target
            numbers, said = (
                [int(text) for text in toys.VOCABULARY.decode(side).split()] for side in each
            )
            assert said == toys.TOYS[toy](numbers)


def test_an_unknown_toy_is_refused():
    with pytest.raises(UserError, match="'add' is not one of: primes, reverse"):
        toys.make_data("add", 1, toys.Sizes())


# cuts


@pytest.mark.parametrize("cut", paths.CUTS)
def test_what_is_cut_off_reaches_nothing(cut):
    settings = replace(paths.MODEL, decoder=replace(paths.MODEL.decoder, **paths.CUTS[cut]))
    decoder = build_translation_model(settings, 53, 53).decoder
    memory = decoder.prepare(Annotations(torch.randn(1, 4, 96), torch.ones(1, 4).bool()))
    first = decoder.start(memory)
    logits, states = zip(
        *(decoder.step(torch.tensor([[token]]), first, memory) for token in (5, 9)), strict=True
    )
    state_is_cut = cut in ("zero-state", "all-three")
    token_is_cut = cut in ("no-token-to-cell", "all-three")
    assert first.hidden.any() != state_is_cut
    assert torch.equal(states[0].hidden, states[1].hidden) == token_is_cut
    # Without the cell, the token affects the logits only through the readout.
    assert torch.equal(*logits) == (cut == "all-three")
    read = decoder.readout
    bare = cut in ("bare-readout", "all-three")
    assert (read.takes_token, read.takes_context) == (not bare, not bare)


def test_the_toys_from_a_command_to_a_table_and_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "Sizes", partial(toys.Sizes, test=8, beyond=4))
    asked = [tmp_path, "--toys", "primes", "copy", "--cuts", "full", "all-three", "--seeds", 3]
    start(monkeypatch, paths, *asked, "--steps", 2, "--lists", 200)
    table = rows(tmp_path / "paths.md")
    assert len(table) == 2 * (2 + 4)
    for part in (table[:6], table[6:]):
        assert part[0][:6] == ["toy", "cut", "PSA", "LCSR", "GeoMean", "exact"]
        assert [row[:2] for row in part[2:]] == [
            [toy, cut] for toy in ("primes", "copy") for cut in ("full", "all-three")
        ]
        assert all(0 <= float(each) <= 1 for row in part[2:] for each in row[2:6])
    check_what_is_written(tmp_path, "paths", capsys.readouterr().out)
    with monkeypatch.context() as patch:
        patch.setattr(paths, "train", None)  # finished runs are not trained again
        start(patch, paths, *asked, "--steps", 2)
        assert rows(tmp_path / "paths.md") == table
        with pytest.raises(UserError, match="holds a run of 2 steps, wanted 1"):
            start(patch, paths, *asked, "--steps", 1)


@pytest.mark.parametrize("module", ["kinds", "runs", "paths"])
def test_a_signal_that_stops_a_run_stops_the_command(module, tmp_path, monkeypatch):
    monkeypatch.setattr("asr.training.run.run", lambda *_, **__: None)  # as when it was stopped
    monkeypatch.setattr(paths, "train", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        if module == "kinds":
            asked = [WORDS, tmp_path, "--kinds", "additive", "--cells", "gru", "--seeds", 1]
            start(monkeypatch, kinds, *asked)
        elif module == "runs":
            (tmp_path / "one.unfinished").mkdir()
            runs.train(WORDS, tmp_path / "one", WORDS.parent, [])
        else:
            start(monkeypatch, paths, tmp_path, "--toys", "copy", "--cuts", "full", "--seeds", 1)
    assert not (tmp_path / "one").exists()


# several seeds


def test_a_cell_shows_mean_and_spread():
    assert summary.cell([0.5]) == "0.500"
    assert summary.cell([1.0, 2.0, 3.0], digits=1) == "2.0 ± 1.0"  # sample deviation: n − 1


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    panels = {"a": {"one": {"": [1.0, 2.0]}, "two": {"": [3.0]}}}
    summary.draw(tmp_path / "a.svg", panels)
    assert "<svg" in (tmp_path / "a.svg").read_text("utf-8")
    for name in ("a.xyz", "no/a.png"):
        with pytest.raises(UserError, match="cannot write the picture"):
            summary.draw(tmp_path / name, panels)


# kinds and cells


def test_what_a_variant_overrides_is_what_a_config_takes():
    for cut in paths.CUTS:
        decoder = load_config(WORDS, kinds.Variant("dot", "lstm", cut).overrides()).model.decoder
        assert decoder.cell == "lstm"
        assert {name: getattr(decoder, name) for name in paths.CUTS[cut]} == paths.CUTS[cut]
    for change, settings in kinds.CHANGES.items():
        config = load_config(WORDS, kinds.Variant("additive", "gru", change).overrides())
        assert {key: attrgetter(key)(config) for key in settings} == settings
        build_translation_model(config.model, 9, 9)
    assert len({str(settings) for settings in kinds.CHANGES.values()}) == len(kinds.CHANGES)
    assert str(kinds.Variant("dot", "gru", "full")) == "dot, gru"
    assert str(kinds.Variant("dot", "gru", "zero-state")) == "dot, gru, zero-state"
    own = kinds.Variant("local,local_reach=5", "gru", "full").overrides()
    attention = load_config(WORDS, own).model.attention
    assert (attention.kind, attention.local_reach) == ("local", 5)


def test_an_unknown_kind_is_one_line_that_names_all(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        start(monkeypatch, kinds, WORDS, tmp_path, "--kinds", "cosine,coldest=0.1")
    assert "got 'cosine', wanted one of additive, " in capsys.readouterr().err


def test_kinds_from_a_command_to_a_table_and_a_picture(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sacrebleu")
    small = ["training.steps=2", "training.validate_every=2", "data.phrases=[]", "data.limit=150"]
    asked = [WORDS, tmp_path, "--kinds", "additive", "fixed", "--cells", "gru", "--seeds", 1]
    asked += [part for each in small for part in ("--set", each)]
    start(monkeypatch, kinds, *asked)
    table = rows(tmp_path / "kinds.md")
    assert table[0] == ["attention", "cell", "change", "BLEU", *table[0][4:6], "parameters"]
    for part in (table[2:4], table[6:8]):
        assert [row[:3] for row in part] == [
            ["additive", "gru", "full"],
            ["fixed", "gru", "full"],
        ]
    assert table[4][3:] == ["1 to 10"]
    assert int(table[2][-1]) > int(table[3][-1])  # a fixed context has no parameters
    check_what_is_written(tmp_path, "kinds", capsys.readouterr().out)
    monkeypatch.setattr(kinds, "run_to_end", None)  # finished runs are not trained again
    start(monkeypatch, kinds, *asked)
    assert rows(tmp_path / "kinds.md") == table
    with pytest.raises(UserError, match=r"holds a run of words\.toml training\.steps=2"):
        start(monkeypatch, kinds, *asked, "--set", "training.rate=1e-4")


def test_bleu_by_length_is_that_of_the_sentences_of_each_bucket():
    pytest.importorskip("sacrebleu")
    sources = ["a b c", " ".join("a" * 11), " ".join("a" * 60), "a"]
    said = ["one two three four .", "nothing that is right", "Six seven eight nine .", "."]
    wanted = ["one two three four .", "some other words", "six seven eight nine .", "."]
    for tokens in (True, False):  # tokens are scored in lower case, texts unchanged
        dev = dev_scores.Sentences(sources, [(text,) for text in wanted], tokens)
        found = dict(dev.bleu(said)[1])
        assert list(found) == ["1 to 10", "11 to 20", "over 50"]
        assert found["1 to 10"] > 99 and found["11 to 20"] < 30
        assert (found["over 50"] > 99) == tokens


def test_kinds_on_speech(tones, tmp_path, monkeypatch, capsys):
    config = RECIPES / "tones" / "tones.toml"
    asked = [config, tmp_path, "--data", tones, "--kinds", "additive", "dot", "--cells", "gru"]
    small = ["training.steps=2", "training.validate_every=2", "model.decoder.state_size=96"]
    asked += [part for each in small for part in ("--set", each)]
    start(monkeypatch, kinds, *asked, "--seeds", 1, 2, "--beam", 2)
    table = rows(tmp_path / "kinds.md")
    assert table[0][3:5] == ["WER %", "CER %"]
    assert [row[0] for row in table[2:]] == ["additive", "dot"]
    model = tmp_path / "dot-gru-full-2" / "model"
    dev = dev_scores.read_dev_set(config, tones, [])
    texts = [each.text for each in read_manifest(tones / "dev.jsonl")]
    found = Recognizer.load(model).configured(beam=2, lm_weight=0.0)
    said = found.transcribe([each.audio for each in read_manifest(tones / "dev.jsonl")])
    pairs = zip(texts, said, strict=True)
    errors = sum(count_words(text, each.text).errors for text, each in pairs)
    wanted = 100 * errors / sum(len(text.split()) for text in texts)
    assert dev.score(model, 2).scores["WER %"] == pytest.approx(wanted)
    check_what_is_written(tmp_path, "kinds", capsys.readouterr().out)


def test_a_config_of_a_language_model_is_refused():
    config = RECIPES / "librispeech" / "language.toml"
    with pytest.raises(UserError, match='got task = "language", wanted "speech" or "translation"'):
        dev_scores.read_dev_set(config, None, [])


# lengths


def test_neighbours_are_joined_on_both_sides_and_what_is_left_over_is_dropped():
    pairs = [Pair(letter, letter.upper()) for letter in "abcde"]
    assert lengths.join(pairs, 1) == pairs
    assert lengths.join(pairs, 2) == [Pair("a b", "A B"), Pair("c d", "C D")]
    assert lengths.join(pairs, 6) == []


def test_lengths_from_models_to_a_table_and_a_picture(tmp_path, monkeypatch, capsys):
    """The references are the output of one of the models; the other has another language."""
    pytest.importorskip("sacrebleu")
    french = Translator.load(to="fr")
    long = "The old man in the blue coat reads the newspaper of yesterday."  # 12 words
    texts = ["Where is the train station?", "I am very tired today.", long]
    said = [each.text for each in french.translate(texts, beam=5, whole=True)]
    files = []
    for name, lines in (("en", texts), ("fr", said), ("more.en", texts[:1]), ("more.fr", said[:1])):
        files.append(tmp_path / name)
        files[-1].write_text("".join(f"{line}\n" for line in lines), "utf-8")
    asked = [tmp_path / "out", "--model", "one, twice", *[SHIPPED["fr"]] * 2]
    asked += ["--model", "other", SHIPPED["de"]]
    asked += ["--source", files[0], files[2], "--reference", files[1], files[3]]
    start(monkeypatch, lengths, *asked, "--lengths", 5, 10, "--join", 1, 2)
    single, joined = (tmp_path / "out/lengths.md").read_text("utf-8").split("2 joined sentences")
    table = rows(tmp_path / "out/lengths.md")
    assert table[0] == ["", "all", "1 to 5", "over 10"]  # no line in between
    assert table[2] == ["one, twice", *["100.0 ± 0.0"] * 3]
    assert table[3][0] == "other" and all(float(each) < 20 for each in table[3][1:])
    assert table[4] == ["*lines*", "4", "3", "1"]
    assert "single sentences" in single and "single" not in joined
    assert table[5] == ["", "all", "6 to 10"]  # the second set has one line, so nothing to join
    assert table[9] == ["*lines*", "1", "1"]
    check_what_is_written(tmp_path / "out", "lengths", capsys.readouterr().out)
    start(monkeypatch, lengths, *asked, "--lengths", 5, 10, "--fewest", 2)
    assert rows(tmp_path / "out/lengths.md")[0::4] == [["", "all", "1 to 5"], ["*lines*", "4", "3"]]


def test_what_lengths_cannot_use_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "a").write_text("one line\n", "utf-8")
    one = ["--source", tmp_path / "a", "--reference", tmp_path / "a"]
    model = ["--model", "one", SHIPPED["fr"]]
    for asked, reason in (
        (["--model", "alone", *one], "--model wants a name and at least one model folder"),
        ([*model, *one, tmp_path / "a"], "got 1 --source and 2 --reference"),
        ([*model, *one, "--lengths", 10, 5], "--lengths wants ascending numbers, got 10 5"),
    ):
        with pytest.raises(SystemExit):
            start(monkeypatch, lengths, tmp_path / "out", *asked)
        assert reason in capsys.readouterr().err
    with pytest.raises(UserError, match="no test set has 2 sentences to join"):
        start(monkeypatch, lengths, tmp_path / "out", *model, *one, "--join", 2)
    assert not (tmp_path / "out").exists()


# speech


def settings_of(overrides: list[str]) -> dict[str, object]:
    """Return all settings of the speech config with their full names."""

    def flat(table: dict[str, Any], before: str) -> Iterator[tuple[str, object]]:
        for key, value in table.items():
            if isinstance(value, dict):
                yield from flat(value, f"{before}{key}.")
            else:
                yield before + key, value

    return dict(flat(to_table(load_config(speech.CONFIG, overrides)), ""))


@pytest.mark.parametrize("name", speech.VARIANTS)
def test_a_variant_changes_what_it_says_and_nothing_else(name):
    overrides = speech.VARIANTS[name].overrides
    base, variant = settings_of([]), settings_of(overrides)
    changed = {key for key, value in variant.items() if base[key] != value}
    assert changed == {each.partition("=")[0] for each in overrides}
    assert bool(changed) == (name != "base")


def test_what_decoding_changes_is_settings_of_the_attention():
    config = load_config(speech.CONFIG)
    for variant in speech.VARIANTS.values():
        for changes in variant.decodings.values():
            attention = replace(config.model.attention, **changes)
            assert {name: getattr(attention, name) for name in changes} == changes


def test_the_dev_utterances_are_left_out_of_training():
    data = load_config(speech.CONFIG).data
    assert [each.without for each in data.train] == [data.dev_ids]
    assert [each.manifest for each in data.train] == [data.dev]


def test_the_share_of_weight_outside_speech_by_hand():
    heard = np.zeros(20, dtype=bool)  # frames, 8 per annotation; the last has 4
    heard[9:12] = True
    weights = torch.tensor([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0], [0.9, 0.0, 0.1]])
    found = speech.share_outside(weights, Piece(0.0, np.zeros(3440, np.float32), heard), 8)
    assert found.tolist() == pytest.approx([0.5, 0.0, 1.0])


def test_pauses_lie_around_what_is_said_and_count_as_silence():
    random = np.random.default_rng(1)
    spoken = 0.1 * random.standard_normal(16_000).astype(np.float32)
    lengths = []
    for _ in range(20):
        sound = pauses.with_pauses(spoken, random)
        assert sound.dtype == np.float32
        (start, *_, end) = np.flatnonzero(np.abs(sound) > 0.05)
        before, after = start / 16_000, (len(sound) - end) / 16_000
        assert all(0.49 < each < 2.01 for each in (before, after))
        heard = speech_mask(sound)
        frames = np.arange(len(heard)) / 100 - before
        assert heard[(frames > 0) & (frames < 0.95)].all()
        assert not heard[(frames < -0.15) | (frames > 1.15)].any()
        lengths += [before, after]
    assert max(lengths) - min(lengths) > 1
    assert (sound[: int(before * 14_000)] != 0).all()  # there is noise


def test_pauses_from_a_command_to_two_manifests(tones, tmp_path, monkeypatch):
    held_out = tmp_path / "ids"
    held_out.write_text("train-0003\ntrain-0001\n", "utf-8")
    asked = [tones / "train.jsonl", tmp_path / "out", "--dev-ids", held_out]
    start(monkeypatch, pauses, *asked)
    before = {each.id: each for each in read_manifest(tones / "train.jsonl")}
    parts = [read_manifest(tmp_path / "out" / f"{part}.jsonl") for part in ("train", "dev")]
    assert [each.id for each in parts[1]] == ["train-0003", "train-0001"]
    assert sorted(each.id for part in parts for each in part) == sorted(before)
    for each in parts[1]:
        assert each.text == before[each.id].text
        assert each.duration == pytest.approx(read(each.audio).duration)
        assert each.duration > before[each.id].duration + 1
    first = parts[1][0].audio.read_bytes()
    start(monkeypatch, pauses, *asked)
    assert parts[1][0].audio.read_bytes() == first


def test_speech_figures_stand_in_the_rows_they_are_of():
    trainings = [speech.Training(40.0, 100.0), speech.Training(60.0, 102.0)]
    scores = [speech.Scores(9.0, 20.0, 1.0, 98.0, 3.0), speech.Scores(11.0, 22.0, 1.5, 99.0, 4.0)]
    text = speech.table(
        [
            speech.Row("window", "as trained", trainings, scores),
            speech.Row("window", "no window", trainings, scores[:1]),
        ]
    )
    first, second = (
        [each.strip() for each in line.strip("|").split("|")] for line in text.splitlines()[2:]
    )
    assert first[:4] == ["window", "as trained", "10.0 ± 1.4", "21.0 ± 1.4"]
    assert first[7:] == ["50.0 ± 14.1", "101 ± 1"]
    assert second == ["window", "no window", "9.0", "20.0", "1.00", "98.0", "3.0", "–", "–"]


SMALL = [
    "data.dev=dev.jsonl",
    "data.dev_ids=",
    "model.encoder.state_size=8",
    "model.decoder.state_size=8",
    "training.steps=2",
    "training.validate_every=2",
]


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=24)


def test_decoding_otherwise_keeps_the_weights_and_leaves_the_model_as_it_was(tones, tmp_path):
    loaded = LoadedModel.load(write_tiny_model(tmp_path), runtime="torch")
    dev = speech.Spoken(["a"], [whole(read(tones / "dev" / "0000.flac"))])
    before, narrow = loaded.engine.model.state_dict(), {"window_back": 1, "window_ahead": 1}
    windowed = speech.changed(loaded, narrow)
    assert all(
        torch.equal(before[name], each) for name, each in windowed.engine.model.state_dict().items()
    )
    assert windowed.engine.model.decoder.attention.window is not None
    assert loaded.engine.model.decoder.attention.window is None
    assert speech.score(windowed, dev) != speech.score(loaded, dev)
    assert speech.score(speech.changed(loaded, {}), dev) == speech.score(loaded, dev)


def test_speech_without_a_letter_written_has_errors_and_no_attention(tmp_path):
    loaded = LoadedModel.load(write_tiny_model(tmp_path))
    silence = Piece(0.0, np.zeros(16_000, np.float32), np.zeros(98, dtype=bool))
    scores = speech.score(loaded, speech.Spoken(["a b"], [silence]))
    assert scores[:2] == (100.0, 100.0)
    assert all(math.isnan(each) for each in scores[2:])


def test_speech_from_a_command_to_a_table_and_a_picture(tones, tmp_path, monkeypatch, capsys):
    small = [
        'data.train=[{manifest="train.jsonl"}]',
        *SMALL,
    ]
    asked = [tmp_path, "--data", tones, "--variants", "base", "window", "--seeds", 1]
    asked += [part for each in small for part in ("--set", each)]
    start(monkeypatch, speech, *asked)
    table = rows(tmp_path / "speech.md")
    assert [row[:2] for row in table[2:]] == [
        ["base", "as trained"],
        ["base", "window"],
        ["base", "mask"],
        ["base", "window and mask"],
        ["window", "as trained"],
        ["window", "no window"],
    ]
    check_what_is_written(tmp_path, "speech", capsys.readouterr().out)
    monkeypatch.setattr(runs, "run_to_end", None)  # finished runs are not trained again
    start(monkeypatch, speech, *asked)
    assert rows(tmp_path / "speech.md") == table
    with pytest.raises(UserError, match=r"holds a run of .* training\.validate_every=2 seed=1;"):
        start(monkeypatch, speech, *asked, "--set", "training.rate=1e-4")
    (tmp_path / "base-1" / "training.json").unlink()
    with pytest.raises(UserError, match=r"base-1: exists but is not a finished run"):
        start(monkeypatch, speech, *asked)


# hours


def utterances(corpus: str, count: int) -> list[Utterance]:
    return [Utterance(f"{corpus}-{at}", Path(f"{at}.flac"), "a", 36.0) for at in range(count)]


def test_more_hours_hold_the_fewer_and_are_as_many_as_asked_for():
    corpora = [utterances("a", 300), utterances("b", 100)]  # 4 hours
    parts = {asked: hours.first_hours(corpora, asked) for asked in (0.5, 1, 2, 4)}
    for asked, part in parts.items():
        assert sum(map(len, part)) == asked * 100
        assert all(set(kept) <= set(corpus) for kept, corpus in zip(part, corpora, strict=True))
    for less, more in itertools.pairwise(parts.values()):
        assert all(set(few) < set(many) for few, many in zip(less, more, strict=True))
    assert 50 <= len(parts[1][0]) <= 95  # about three quarters
    with pytest.raises(UserError, match=r"wanted 5 hours of speech, got 4\.00"):
        hours.first_hours(corpora, 5)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "some", "all+self", "0+self"])
def test_no_amount_of_speech(text):
    with pytest.raises(ValueError):
        hours.amount(text)
    assert [hours.amount(each) for each in ("0.5", "all", "synthetic", "0.5+self")]


def hours_of(corpora: list[list[Utterance]]) -> float:
    return sum(each.duration for corpus in corpora for each in corpus) / 3600


def learnt(run: Path) -> list[list[Utterance]]:
    """Return the training utterances of a run, by corpus."""
    config = json.loads((run / "config.json").read_text("utf-8"))
    return [read_manifest(each["manifest"], ANYWHERE) for each in config["data"]["train"]]


def test_a_model_of_few_hours_labels_the_rest(tones, tmp_path, monkeypatch, capsys):
    train = read_manifest(tones / "train.jsonl")
    (tmp_path / "report.txt").write_text(read_manifest(tones / "dev.jsonl")[0].id, "utf-8")
    monkeypatch.setattr(hours, "REPORT", tmp_path / "report.txt")
    heard = []

    def decode_all(loaded, pieces, decoding):
        """Return rising confidence for each piece; the first does not end."""
        heard.append(len(pieces))
        nothing = (), np.zeros((1, 1), np.float32)
        ends = ["length", *["eos"] * (len(pieces) - 1)]
        return [
            Segment(0.0, 2.0, (Span("own", 0.0, 1.0),), *nothing, -1 / (at + 1), end)
            for at, end in enumerate(ends)
        ]

    monkeypatch.setattr(hours, "decode_all", decode_all)
    halves = train[:16], train[16:]
    for name, part in zip("ab", halves, strict=True):
        write_manifest(tones / f"{name}.jsonl", part)
    corpora = 'data.train=[{manifest="a.jsonl"}, {manifest="b.jsonl", times=0.5}]'
    asked = [tmp_path, "--data", tones, "--hours", "0.005+self", "--every", 1]
    asked += [part for each in [corpora, *SMALL] for part in ("--set", each)]
    start(monkeypatch, hours, *asked)
    few, more = (learnt(tmp_path / f"{name}-1") for name in ("0.005", "0.005+self"))
    known = {each.id for corpus in few for each in corpus}
    rest = [each for each in train if each.id not in known]
    assert 0 < len(known) < len(train) - 4
    assert [all_of[: len(part)] for all_of, part in zip(more, few, strict=True)] == few
    own = [all_of[len(part) :] for all_of, part in zip(more, few, strict=True)]
    assert all(own) and {each.text for corpus in own for each in corpus} == {"own"}
    surest = {each.id for each in rest[-round(hours.KEPT * (len(rest) - 1)) :]}
    assert [{each.id for each in corpus} for corpus in own] == [
        {each.id for each in half} & surest for half in halves
    ]
    assert heard.count(len(rest)) == 1
    (row,) = rows(tmp_path / "hours.md")[2:]
    assert row[0] == "0.005+self"
    assert float(row[1]) == pytest.approx(hours_of(more), abs=0.005)
    start(monkeypatch, hours, *asked)  # finished runs are neither labelled nor trained again
    assert heard.count(len(rest)) == 1
    capsys.readouterr()


def test_hours_from_a_command_to_a_table_and_a_picture(tones, tmp_path, monkeypatch, capsys):
    dev = read_manifest(tones / "dev.jsonl")
    (tmp_path / "report.txt").write_text("\n".join(each.id for each in dev[:3]), "utf-8")
    monkeypatch.setattr(hours, "REPORT", tmp_path / "report.txt")
    (tones / "synthetic").mkdir()
    made = [replace(each, id=f"made-{each.id}") for each in read_manifest(tones / "train.jsonl")]
    write_manifest(tones / "synthetic" / "train.jsonl", made[:6])
    small = [
        'data.train=[{manifest="train.jsonl"}, {manifest="synthetic/train.jsonl", times=0.5}]',
        "data.audio_in=.",
        *SMALL,
    ]
    asked = [tmp_path, "--data", tones, "--hours", "0.005", "all", "synthetic", "--every", 2]
    asked += [part for each in small for part in ("--set", each)]
    start(monkeypatch, hours, *asked)
    table = rows(tmp_path / "hours.md")
    assert [row[0] for row in table[2:]] == ["0.005", "all", "synthetic"]
    amounts = [float(row[1]) for row in table[2:]]
    train = read_manifest(tones / "train.jsonl")
    whole_train = sum(each.duration for each in train) / 3600
    assert amounts[0] <= 0.005 < whole_train and amounts[1] == pytest.approx(whole_train, abs=0.005)
    assert all(float(each) > 0 for row in table[2:] for each in row[2:-1])
    for row in table[2:]:  # seconds are rounded, so 0 on a fast machine
        scored = json.loads((tmp_path / f"{row[0]}-1" / "scores.json").read_text("utf-8"))
        assert scored["seconds"] > 0 and row[-1] == f"{scored['seconds']:.0f}"
    config = json.loads((tmp_path / "synthetic-1" / "config.json").read_text("utf-8"))
    entries = config["data"]["train"]
    assert [each["times"] for each in entries] == [1.0, 0.5]
    assert [len(read_manifest(each["manifest"], ANYWHERE)) for each in entries] == [len(train), 6]
    assert len(hours.read_report(tones, hours.load(["data.dev=dev.jsonl"]), 2).texts) == 2
    check_what_is_written(tmp_path, "hours", capsys.readouterr().out)
    monkeypatch.setattr(runs, "run_to_end", None)  # finished runs are not trained again
    start(monkeypatch, hours, *asked)
    assert rows(tmp_path / "hours.md") == table
    with pytest.raises(UserError, match=r"holds a run of .* every=2; use another"):
        start(monkeypatch, hours, *asked[:-1], "training.rate=1e-4")


# decoding options


def test_decoding_options_are_chosen_one_after_the_other(monkeypatch, capsys):
    def rates(texts, found):
        (options,) = found
        wer = 10 + 8 * abs(options.lm_weight - 0.5) + 20 * abs(options.ctc_weight - 0.4)
        return 1.0, wer + (2 if texts == ["other"] else 0)

    monkeypatch.setattr(decoding, "decode_all", lambda loaded, pieces, options: [options])
    monkeypatch.setattr(decoding, "error_rates", rates)
    lists = [speech.Spoken(["one"], []), speech.Spoken(["other"], [])]
    trials = [("lm_weight", [0.25, 0.5]), ("ctc_weight", [0.3, 0.4, 0.9])]
    start_from = DecodingOptions(fastest=0.0)
    chosen = decoding.choose(None, lists, start_from, trials)
    assert chosen == DecodingOptions(fastest=0.0, lm_weight=0.5, ctc_weight=0.4)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6  # the start, and each further value once
    assert printed[0].startswith("17.00  16.00/1.00  18.00/1.00")
