"""Correlation with people's scores, as `benchmarks/pronunciation.py` computes it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from asr.corpora.manifest import read_manifest
from asr.errors import UserError
from asr.inference.reading_evidence import Evidence

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import pronunciation  # of benchmarks/
from pronunciation import Said, Scores

ROOT = Path(__file__).parents[1]
WORD = {"text": "Moon", "total": [8, 9, 10]}
SENTENCE = {"total": [7.5, 8, 9], "words": [WORD]}


def said(speaker: str, margins: list[float], words: list[list[float]]) -> Said:
    evidence = [Evidence(each, -1.0, agrees=True, rival=0.0, characters=4) for each in margins]
    sentence = [float(np.mean([each[at] for each in words])) for at in range(len(words[0]))]
    scores = Scores(["word"] * len(words), sentence, words)
    return Said(speaker, scores, evidence, 2.0, 0.1)


@pytest.mark.parametrize("name", ["scores.json", "utt2score"])
def test_both_kinds_of_files_are_read(tmp_path: Path, name: str) -> None:
    text = json.dumps({"a": SENTENCE}) if name.endswith(".json") else f"a\t{json.dumps(SENTENCE)}\n"
    (tmp_path / name).write_text(text)
    wanted = Scores(["moon"], [7.5, 8, 9], [[8, 9, 10]])
    assert pronunciation.read_scores(tmp_path / name) == {"a": wanted}


@pytest.mark.parametrize(
    "text", ["a", "a\t{", 'a\t{"total": 1}', 'a\t{"total": [], "words": []}', "a\t[]"]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "scores").write_text(text)
    with pytest.raises(UserError, match="scores: not the scores"):
        pronunciation.read_scores(tmp_path / "scores")


def test_the_median_of_the_raters_is_compared_with() -> None:
    """By the mean, the last word would be the worst."""
    spoken = [
        said("ann", [-4.0, -3.0], [[4, 4, 4], [6, 6, 6]]),
        said("bob", [-2.0, -1.0], [[8, 8, 8], [0, 10, 10]]),
    ]
    words, sentences = pronunciation.pairs(spoken, pronunciation.mean_of(pronunciation.margin))
    assert words.correlation(["ann", "bob"]) == pytest.approx(1)
    assert sentences.correlation(["ann", "bob"]) == pytest.approx(1)
    assert words.theirs["bob"].tolist() == [8, 10]


def test_free_decoding_alone_scores_by_the_words_it_found() -> None:
    evidence = [
        Evidence(-1.0, -1.0, agrees=each, rival=0.0, characters=4) for each in (True, False)
    ]
    one = Said("ann", Scores(["a", "b"], [5.0], [[9.0], [1.0]]), evidence, 2.0, 0.1)
    assert pronunciation.mean_of(pronunciation.agreement)(one) == ([1.0, 0.0], 0.5)


def test_each_rater_is_compared_with_the_others() -> None:
    spoken = [said("ann", [0.0, 0.0], [[1, 2, 6], [3, 3, 3]])]
    words, sentences = pronunciation.raters(spoken)
    assert words.ours["ann"].tolist() == [1, 2, 6, 3, 3, 3]
    assert words.theirs["ann"].tolist() == [4, 3.5, 1.5, 3, 3, 3]
    assert sentences.ours["ann"].tolist() == [2, 2.5, 4.5]


def test_least_squares_finds_what_words_are_scored_by() -> None:
    random = np.random.default_rng(1)

    def speaker(name: str) -> Said:
        margins = random.uniform(-16, 0, 6)
        return said(name, margins.tolist(), [[10 + each / 2] for each in margins])

    rule = pronunciation.fitted([speaker("ann") for _ in range(20)])
    words, sentences = pronunciation.pairs([speaker("bob") for _ in range(4)], rule)
    np.testing.assert_allclose(words.ours["bob"], words.theirs["bob"], atol=1e-6)
    np.testing.assert_allclose(sentences.ours["bob"], sentences.theirs["bob"], atol=1e-6)


def test_recordings_are_judged_and_ages_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = ROOT / "data" / "speech" / "manifest.jsonl"
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    scores = {
        each["id"]: {
            "total": place,
            "words": [{"text": text, "total": at} for at, text in enumerate(each["norm"].split())],
        }
        for place, each in enumerate(lines)
    }
    scores[lines[0]["id"]]["words"][0]["text"] = "other"  # left out
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    ages = zip([each["speaker"][-4:] for each in lines], [30, 7, 8, 40, 50, 6], strict=True)
    (tmp_path / "ages").write_text("".join(f"{speaker} {age}\n" for speaker, age in ages))
    arguments = [str(manifest), "--scores", str(tmp_path / "scores.json"), "--every", "2"]
    arguments += ["--ages", str(tmp_path / "ages"), "--fit", str(tmp_path / "scores.json")]
    monkeypatch.setattr(sys, "argv", ["pronunciation.py", *arguments])
    pronunciation.main()
    head, _, rule, *rows = capsys.readouterr().out.strip().splitlines()
    assert head.startswith("english: 2 sentences") and head.endswith("2 speakers, 1 children")
    assert rule.startswith("---") and len(rows) == 4  # no row of raters


def test_scores_of_other_recordings_are_one_clear_line(tmp_path: Path) -> None:
    utterances = read_manifest(ROOT / "data" / "speech" / "manifest.jsonl")
    (tmp_path / "scores").write_text(f"other\t{json.dumps(SENTENCE)}\n")
    with pytest.raises(UserError, match="no scores of an utterance"):
        pronunciation.scored(utterances, tmp_path / "scores")
