"""The translation task: overfitting on a few pairs, data preparation and validation."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asr.checksums import renew_checksum
from asr.errors import UserError
from asr.search.hypothesis import Hypothesis
from asr.text.vocabulary import EOS
from asr.training.config import TranslationConfig, config_from_table
from asr.training.tasks.translation import TranslationTask

PAIRS = [
    ("Go.", "Va !"),
    ("Go home.", "Va chez toi !"),
    ("I lost.", "J'ai perdu."),
    ("I'm home.", "Je suis chez moi."),
    ("You're home.", "Tu es chez toi."),
    ("I'm lost.", "Je suis perdu."),
]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the messages of the task."""
    lines: list[str] = []
    for module in ("translation", "translation_data"):
        monkeypatch.setattr(f"asr.training.tasks.{module}.log_line", lines.append)
    return lines


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Collect the requested pictures instead of drawing them."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr("asr.render.picture.draw_heat_map", lambda *each: calls.append(each))
    return calls


def config(**data: Any) -> TranslationConfig:
    table = {
        "task": "translation",
        "data": {"train": "train.tsv", "dev": "dev.tsv", **data},
        "model": {
            "encoder": {"embedding_size": 16, "state_size": 16, "dropout": 0.0},
            "attention": {"size": 16},
            "decoder": {"embedding_size": 16, "state_size": 32, "readout_size": 16, "dropout": 0.0},
        },
        "batches": {"size": 1000.0},
        "loss": {"label_smoothing": 0.0},
        "training": {"precision": "fp32", "device": "cpu"},
    }
    made = config_from_table(table)
    assert isinstance(made, TranslationConfig)
    return made


def task(folder: Path, **data: Any) -> TranslationTask:
    lines = "".join(
        f"{source}\t{target}\n" for source, target in PAIRS * 2
    )  # each word occurs twice
    (folder / "train.tsv").write_text(lines, "utf-8")
    (folder / "dev.tsv").write_text("Go home.\tVa chez toi !\nI'm home.\tJe suis chez moi.\n")
    return TranslationTask(config(**data), folder, folder / "recipe")


def learn(made: TranslationTask, steps: int) -> None:
    """Train on all pairs at each step."""
    optimizer = torch.optim.Adam(made.model.parameters(), lr=0.02)
    for step in range(steps):
        (indices,) = made.plan(step)
        optimizer.zero_grad()
        made.loss(made.make(step, 0, indices), step).total.backward()
        optimizer.step()
    made.model.eval()


def test_a_handful_is_learnt_by_heart(
    tmp_path: Path, told: list[str], drawn: list[tuple[Any, ...]]
) -> None:
    phrases = [["i lost .", "j'ai perdu ."], ["You lost.", "Tu es perdu."]]
    made = task(tmp_path, phrases=phrases)
    learn(made, steps=60)
    with torch.no_grad():
        found = made.validate(60, tmp_path)
    assert found.figure == -found.metrics["bleu"] == pytest.approx(-100)
    assert found.metrics["length_ratio"] == 1
    table = told[-1].splitlines()
    assert table[-2].split("  ")[0] == "i lost ." and table[-2].endswith("1.00  yes")
    assert table[-1].startswith("you lost .") and table[-1].endswith("no")
    path, weights, source, target, title = drawn[-1]
    assert source == ("<unk>", "lost", ".", "<eos>")
    assert weights.shape == (len(target), len(source))
    assert source[-1] == target[-1] == "<eos>" and title.startswith("you lost . →")
    assert path == tmp_path / "alignments" / "step-00000060.png" == found.picture


def test_a_batch_costs_what_its_pairs_cost(tmp_path: Path) -> None:
    made = task(tmp_path)
    made.model.eval()
    together = made.loss(made.make(0, 0, [0, 3, 4]), 0)
    alone = [made.loss(made.make(0, 0, [index]), 0) for index in (0, 3, 4)]
    amounts = [each.amount for each in alone]
    assert amounts == [3, 6, 6] and together.amount == 15  # words and <eos>
    mean = sum(each.total * amount for each, amount in zip(alone, amounts, strict=True)) / 15
    torch.testing.assert_close(together.total, mean)


def test_a_second_pass_costs_nothing_but_where_dropout_makes_it_differ(tmp_path: Path) -> None:
    made = task(tmp_path)
    batch = made.make(0, 0, [0, 3, 4])
    once = made.loss(batch, 0)
    made.config = replace(made.config, loss=replace(made.config.loss, consistency=2.0))
    twice = made.loss(batch, 0)
    assert twice.amount == once.amount
    assert abs(float(twice.parts["inconsistency"])) < 1e-6  # two products may round differently
    torch.testing.assert_close(twice.total, once.total)
    made.model.encoder.annotation_dropout.p = 0.5
    differ = made.loss(batch, 0)
    assert differ.parts["inconsistency"] > 1e-5
    parts = differ.parts["cross_entropy"] + 2 * differ.parts["inconsistency"]
    torch.testing.assert_close(differ.total, parts)


def test_an_epoch_takes_each_pair_once(tmp_path: Path) -> None:
    made = task(tmp_path)
    taken = [index for batch in made.plan(3) for index in batch]
    assert sorted(taken) == list(range(2 * len(PAIRS)))
    assert made.plan(3) == made.plan(3)


def test_joined_pairs_are_added_and_bring_no_words_of_their_own(tmp_path: Path) -> None:
    plain, made = task(tmp_path), task(tmp_path, joined=0.5)
    assert made.data.pairs[: len(plain.data.pairs)] == plain.data.pairs
    assert len(made.data.pairs) == len(made.data.examples) == 3 * len(PAIRS)
    assert made.source == plain.source and made.target == plain.target
    assert task(tmp_path, joined=0.5).data.pairs == made.data.pairs  # needed for resuming
    with pytest.raises(UserError, match=r"data\.joined.*-1"):
        task(tmp_path, joined=-1.0)


def test_renamed_pairs_are_added(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("Tom left.\tTom est parti.\nI left.\tJe pars.\n" * 2)
    made = task(tmp_path, train="names.tsv", subwords=20, renamed=0.5).data.pairs
    assert [pair.target.split()[1:] for pair in made[4:]] == [["est", "parti."]] * 2
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe/test.txt").write_text(
        "Toom left!\n"
    )  # the only name that can be made from Tom
    listed = task(tmp_path, train="names.tsv", subwords=20, renamed=0.5, test_list="test.txt")
    assert len(listed.data.pairs) == 4
    with pytest.raises(UserError, match=r"data\.renamed.*-2"):
        task(tmp_path, renamed=-2.0)


def test_exchanged_pairs_are_added_but_none_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe/days.tsv").write_text("Monday\tlundi\nFriday\tvendredi\nSunday\tdimanche\n")
    (tmp_path / "recipe/test.txt").write_text("See you Friday!\n")
    (tmp_path / "days.tsv").write_text("See you Monday.\tÀ lundi.\nI left.\tJe pars.\n" * 40)
    days = {"train": "days.tsv", "test_list": "test.txt", "exchange": "days.tsv"}
    without = {name: value for name, value in days.items() if name != "exchange"}
    plain = task(tmp_path, **without, subwords=24)
    made = task(tmp_path, **days, subwords=24, exchanged=0.5)
    added = made.data.pairs[80:]
    assert set(added) == {("See you Sunday.", "À dimanche.")} and 10 < len(added) < 30
    assert made.source == plain.source
    lowered = task(tmp_path, **days, exchanged=0.5).data.pairs[80:]
    assert set(lowered) == {("see you sunday .", "à dimanche .")}
    with pytest.raises(UserError, match=r"data\.exchanged.*-1"):
        task(tmp_path, **days, exchanged=-1.0)
    with pytest.raises(UserError, match=r"data\.exchanged needs data\.exchange"):
        task(tmp_path, exchanged=0.5)


def test_extra_pairs_come_from_beside_the_config_so_many_times(tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "extra.tsv").write_text("Yes.\tOui.\n", "utf-8")
    plain, made = task(tmp_path), task(tmp_path, extra="extra.tsv", extra_times=3)
    assert made.data.pairs == [*plain.data.pairs, *[("yes .", "oui .")] * 3]
    assert made.source == plain.source and made.target == plain.target
    with pytest.raises(UserError, match=r"nowhere\.tsv"):
        task(tmp_path, extra="nowhere.tsv")


def test_spoken_pairs_are_added_without_marks_and_with_their_whole_target(tmp_path: Path) -> None:
    plain, made = task(tmp_path).data.pairs, task(tmp_path, joined=0.5, spoken=1.0).data.pairs
    pairs, added = made[: 3 * len(PAIRS)], made[3 * len(PAIRS) :]
    assert pairs[: len(plain)] == plain and len(added) == len(pairs)
    wanted = {(pair.source.replace(" .", "").replace(" !", ""), pair.target) for pair in pairs}
    assert set(added) <= wanted and len(set(added)) > len(PAIRS) / 2
    with pytest.raises(UserError, match=r"data\.spoken.*-0\.5"):
        task(tmp_path, spoken=-0.5)


def test_no_source_is_trained_on_and_held_out(tmp_path: Path) -> None:
    made = task(tmp_path, dev="", dev_share=0.5, phrases=[["Go.", "Va !"], ["I lost.", "?"]])
    held = {question.source for question in made.data.dev}
    trained = {pair.source for pair in made.data.pairs}
    assert held and not held & trained
    assert {"go .", "i lost ."} <= trained


def test_subwords_take_texts_as_written_and_are_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    made = task(tmp_path, subwords=30)
    assert made.data.dev[0].references == ("Va chez toi !",)
    assert made.source is made.target and made.source.kind == "subwords"
    assert made.target.decode(made.data.examples[2].target) == "J'ai perdu."
    assert task(tmp_path, subwords=30).source == made.source
    with pytest.raises(UserError, match=r"data\.subwords = 4000"):
        task(tmp_path, subwords=4000)


def test_long_pairs_are_left_out_and_told(tmp_path: Path, told: list[str]) -> None:
    made = task(tmp_path, most_words=4)
    assert max(len(side.split()) for pair in made.data.pairs for side in pair) == 4
    assert any("4 pairs of more than 4 words are left out" in line for line in told)


def test_settings_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no pairs to validate with"):
        task(tmp_path, dev="", dev_share=0.0)
    with pytest.raises(UserError, match="no pairs to train on"):
        task(tmp_path, most_words=1)
    with pytest.raises(UserError, match=r"data\.phrases: .* \['go \.'\]"):
        task(tmp_path, phrases=[["go ."]])


def test_sources_end_with_eos_and_targets_are_bare(tmp_path: Path) -> None:
    batch = task(tmp_path).make(0, 0, [0, 3])
    ends = batch.source[torch.arange(2), batch.source_lengths - 1]
    assert ends.tolist() == [EOS, EOS] and EOS not in batch.tokens
    assert batch.source_lengths.tolist() == [3, 4] and batch.token_lengths.tolist() == [2, 5]


def test_lists_are_taken_out_of_training_whatever_their_spelling(tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "dev.txt").write_text("GO\nI lost!\n")
    (tmp_path / "recipe" / "test.txt").write_text("I'm home.\n")
    made = task(tmp_path, dev="", dev_list="dev.txt", test_list="test.txt")
    assert [question.source for question in made.data.dev] == ["go .", "i lost ."]
    assert {pair.source for pair in made.data.pairs} == {"go home .", "you're home .", "i'm lost ."}
    with pytest.raises(UserError, match=r"nowhere\.txt"):
        task(tmp_path, dev="", dev_list="nowhere.txt")


def test_a_source_is_asked_once_with_all_its_translations(tmp_path: Path) -> None:
    task(tmp_path)
    (tmp_path / "more.tsv").write_text("Go.\tVa !\nHi.\tSalut.\nGo.\tPars !\n", "utf-8")
    dev = TranslationTask(config(dev="more.tsv"), tmp_path, tmp_path).data.dev
    assert [question.references for question in dev] == [("va !", "pars !"), ("salut .",)]


def test_parallel_files_are_read_and_every_line_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("Go.\nHi.\nGo.\n")
    (tmp_path / "a.fr").write_text("Va !\nSalut.\nPars !\n")
    names = {"train": "a.en", "train_target": "a.fr", "dev": "a.en", "dev_target": "a.fr"}
    made = task(tmp_path, **names)
    assert made.data.pairs[2] == ("go .", "pars !")
    assert len(made.data.dev) == 3 and made.data.dev[0].references == ("va !",)


def test_each_side_may_have_its_own_subwords(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    made = task(tmp_path, subwords=30, subword_kind="bpe", joint=False)
    assert made.source != made.target
    assert made.target.decode(made.data.examples[0].target) == "Va !"
    with pytest.raises(UserError, match="'words' is not one of: unigram, bpe"):
        task(tmp_path, subwords=30, subword_kind="words")


def test_chance_subwords_follow_from_seed_epoch_and_position(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    made = task(tmp_path, subwords=40, subword_kind="bpe", subword_dropout=0.5)
    batch = made.make(2, 5, [0, 1, 2, 3])
    made.make(0, 0, [3])  # batches made in between have no effect
    again = task(tmp_path, subwords=40, subword_kind="bpe", subword_dropout=0.5)
    for one, other in zip(batch, again.make(2, 5, [0, 1, 2, 3]), strict=True):
        torch.testing.assert_close(one, other)
    tokens = {tuple(made.make(epoch, 0, [3]).source[0].tolist()) for epoch in range(8)}
    assert len(tokens) > 3
    assert {made.source.decode(each) for each in tokens} == {"I'm home."}
    with pytest.raises(UserError, match="not read with words"):
        task(tmp_path, subword_dropout=0.1)


def test_a_model_to_start_from_brings_its_vocabularies(tmp_path: Path) -> None:
    sizes = {"subwords": 40, "subword_kind": "bpe"}
    first = task(tmp_path, **sizes)
    first.save(tmp_path / "model")
    (tmp_path / "train.tsv").write_text("Zwölf Boxkämpfer\tjagen Viktor\n" * 4, "utf-8")
    settings = config(**sizes)
    start = replace(settings.training, start_from=str(tmp_path / "model"))
    second = TranslationTask(replace(settings, seed=5, training=start), tmp_path, tmp_path)
    assert (second.source, second.target) == (first.source, first.target)
    second.begin()
    before, after = first.model.state_dict(), second.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    kept = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**kept, "decoding": {"beam": 3}}))
    renew_checksum(tmp_path / "model" / "config.json")
    TranslationTask(replace(settings, training=start), tmp_path, tmp_path).save(tmp_path / "tuned")
    assert json.loads((tmp_path / "tuned" / "config.json").read_text())["decoding"] == {"beam": 3}

    words = replace(config(), training=start)
    with pytest.raises(UserError, match="means words, but the model to start from has subwords"):
        TranslationTask(words, tmp_path, tmp_path)


def test_tokens_are_scored_as_they_stand(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    made = task(tmp_path, subwords=30, tokenised=True)
    said = {"Va chez toi !": "Va chez toi!", "Je suis chez moi.": "Je suis chez moi."}
    found = [made.target.encode(said[question.references[0]]) for question in made.data.dev]
    made._translate = (
        lambda sources: [  # type: ignore[method-assign,assignment]
            Hypothesis(tokens, 0.0, np.ones((len(tokens) + 1, 40), np.float32), "eos", [])
            for tokens in found[: len(sources)]
        ]
    )
    with torch.no_grad():
        strict = made.validate(0, tmp_path).metrics["bleu"]
        made.config = config(subwords=30)
        made.data.config = made.config
        assert strict < made.validate(0, tmp_path).metrics["bleu"] == pytest.approx(100)
