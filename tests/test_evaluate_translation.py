"""`asr evaluate` of a translation model: tables, records, pictures and errors."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_model import write_tiny_model
from tiny_translator import write_tiny_translator

from asr import cli
from asr.corpora.pairs import read_pairs
from asr.inference.translator import Translator

ROOT = Path(__file__).parents[1]
PHRASES = ROOT / "recipes" / "fra_eng" / "phrases.tsv"
MANIFEST = ROOT / "data" / "speech" / "manifest.jsonl"
TEXTS = ("Go.", "I lost.", "I'm home!")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_translator(tmp_path_factory.mktemp("translator")))


@pytest.fixture(scope="module")
def said(model: str) -> list[str]:
    return [each.text for each in Translator.load(model).translate([*TEXTS])]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    def call(*arguments: object) -> SimpleNamespace:
        status = cli.main(["evaluate", *map(str, arguments)])
        captured = capsys.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return call


def pairs(folder: Path, *lines: tuple[str, str]) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in lines), "utf-8")
    return path


def test_own_translations_score_100_and_several_references_make_one_question(
    run, model: str, said: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("sacrebleu")
    file = pairs(tmp_path, ("Go.", "nothing alike"), *zip(TEXTS, said, strict=True))
    found = json.loads(run(file, "-m", model, "--json").out)
    assert found["sentences"] == found["exact"] == found["attention"]["total"]["sentences"] == 3
    assert found["lowercase"] == pytest.approx(100) and "nrefs:var" in found["signature"]
    assert found["chrf"] > 99 and found["cost"]["cpu_seconds"] > 0
    assert [each["sentences"] for each in found["by_length"]] == [3]
    wrong = pairs(tmp_path, *((text, "nothing alike") for text in TEXTS))
    found = json.loads(run(wrong, "-m", model, "--json").out)
    assert found["exact"] == 0 and found["lowercase"] < 5


def test_the_table_has_a_row_for_each_phrase(run, model: str, said: list[str], tmp_path) -> None:
    file = pairs(tmp_path, (TEXTS[0], said[0]), (TEXTS[1], "x"), (TEXTS[2], said[2]))
    done = run(file, "-m", model)
    header, _, *rows = done.out.split("\n\n")[0].splitlines()
    assert done.status == 0 and header.split()[:3] == ["phrase", "translation", "reference"]
    assert [row.split("  ")[0] for row in rows] == ["go .", "i lost .", "i'm home !"]
    assert " 1.00  " in rows[0] and " 0.00  " in rows[1] and " 1.00  " in rows[2]
    assert "attention" in done.out.split("source words")[-2] and "stopped by" in done.out


def test_many_sentences_show_the_worst_and_draw_the_first(run, model: str, tmp_path) -> None:
    lines = [(f"{text} {count * 'go '}.", "va !") for text in TEXTS for count in range(1, 6)]
    done = run(pairs(tmp_path, *lines), "-m", model, "--heat-map", tmp_path / "all.svg")
    assert "the 12 of 15 sentences with the lowest BLEU" in done.out
    assert "the picture has the first 12 of 15 sentences" in done.out
    assert (tmp_path / "all.svg").read_text("utf-8").count(
        'id="axes_'
    ) == 2 * 12  # each with a colour bar
    few = run(pairs(tmp_path, *lines), "-m", model, "--limit", 2)
    assert "2 sentences in" in few.out and "lowest BLEU" not in few.out


def test_records_hold_what_the_table_leaves_out(run, model: str, said, tmp_path: Path) -> None:
    file, out = pairs(tmp_path, ("Go.", said[0]), ("Go.", "Va !")), tmp_path / "out.jsonl"
    assert run(file, "-m", model, "-o", out).status == 0
    (record,) = map(json.loads, out.read_text("utf-8").splitlines())
    assert record["source"] == "go ." and record["text"] == said[0] and record["bleu"] == 1
    assert len(record["references"]) == 2 and record["attention"]["annotations"] == 3
    assert record["stop_reason"] in ("eos", "length", "repeat")


def test_a_fixed_context_is_named_stuck_at_the_end(run, tmp_path: Path) -> None:
    folder = write_tiny_translator(tmp_path / "fixed", kind="fixed")
    done = run(PHRASES, "-m", folder)
    assert done.out.count("stuck at the end") == 4
    assert "100% of 4 sentences: attention stays on the end" in done.out


def test_without_sacrebleu_words_are_counted_here(
    run, model: str, said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pairs(tmp_path, *zip(TEXTS, said, strict=True))
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics.bleu", None)
    done = run(file, "-m", model)
    assert done.status == 0 and "without sacrebleu" in done.out and "chrF" not in done.out


def test_the_classic_four_are_there_and_shipped_models_take_them(run) -> None:
    assert [pair.source for pair in read_pairs(PHRASES)] == [
        "Go.", "I lost.", "He's calm.", "I'm home.",
    ]  # fmt: skip
    for language in ("fr", "de", "zh"):
        done = run(PHRASES, "--to", language)
        assert done.status == 0 and "4 sentences in" in done.out


def test_mistakes_are_one_line(run, model: str, tmp_path: Path) -> None:
    speech = write_tiny_model(tmp_path / "speech")
    (tmp_path / "no-tab.tsv").write_text("a\tb\nno tab\n", "utf-8")
    (tmp_path / "empty.tsv").write_text("\n", "utf-8")
    picture = tmp_path / "all.txt"
    for arguments, message in [
        ([tmp_path / "no-tab.tsv", "-m", model], "no-tab.tsv:2: no tab in 'no tab'"),
        ([tmp_path / "empty.tsv", "-m", model], "no pairs in it"),
        ([tmp_path / "none.tsv", "-m", model], "cannot"),
        ([PHRASES, "-m", speech], "sentence pairs; for"),
        ([PHRASES], "sentence pairs; for the shipped speech model"),
        ([MANIFEST, "-m", model], "a manifest of recordings; for"),
        ([PHRASES, "-m", model, "--to", "de"], "got --model and --to"),
        ([PHRASES, "-m", model, "--ctc-weight", "0.1"], "--ctc-weight does not apply to"),
        ([PHRASES, "-m", model, "--speed", "1.2"], "--speed does not apply to"),
        ([MANIFEST, "-m", speech, "--whole"], "--whole does not apply to"),
        ([MANIFEST, "-m", speech, "--length-penalty", "0"], "--length-penalty does not apply to"),
        ([PHRASES, "-m", model, "--heat-map", picture], "unknown format"),
    ]:
        done = run(*arguments)
        assert (done.status, done.out) == (2, ""), arguments
        assert message in done.err and len(done.err.splitlines()) == 1, done.err
