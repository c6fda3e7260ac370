"""BLEU in two conventions and by source length."""

import math
import sys

import pytest

from asr.errors import UserError
from asr.scoring.bleu import phrase_bleu, report, score

REFERENCES = [
    "A man is riding a brown horse.",
    "Two dogs run through the green grass.",
    "The children are playing in the park today.",
]


@pytest.fixture(autouse=True)
def _needs_sacrebleu() -> None:
    pytest.importorskip("sacrebleu")


def test_perfect_translation_scores_hundred() -> None:
    result = score(REFERENCES, REFERENCES)
    assert result.bleu == pytest.approx(100)
    assert result.lowercase == pytest.approx(100)
    assert result.length_ratio == 1
    assert result.by_length == ()


def test_case_costs_only_where_case_counts() -> None:
    result = score(REFERENCES, [text.lower() for text in REFERENCES])
    assert result.bleu < 99
    assert result.lowercase == pytest.approx(100)
    assert "case:mixed" in result.signature
    assert "tok:13a" in result.signature
    assert "tok:none" in result.lowercase_signature


def test_punctuation_is_parted_only_by_the_tokeniser() -> None:
    result = score(REFERENCES, [text.rstrip(".") for text in REFERENCES])
    assert result.bleu > result.lowercase


def test_buckets_of_source_length_hold_every_sentence() -> None:
    sources = ["", "wort " * 10, "wort " * 51]
    said = [REFERENCES[0].lower(), REFERENCES[1].lower(), "Nothing alike at all"]
    result = score(REFERENCES, said, sources)
    assert [bucket[:2] for bucket in result.by_length] == [("1 to 10", 2), ("over 50", 1)]
    short, long = result.by_length
    alone = score(REFERENCES[:2], said[:2])
    assert short[2:] == pytest.approx((alone.bleu, alone.lowercase))
    assert short.bleu < 99 and short.lowercase == pytest.approx(100)
    assert max(long.bleu, long.lowercase) < 5
    assert "over 50" in report(result) and "lower-cased" in report(result)
    assert result.signature in report(result)
    others = score(REFERENCES, said, sources, lengths=(9, 11, 60)).by_length
    assert [bucket[:2] for bucket in others] == [("1 to 9", 1), ("10 to 11", 1), ("12 to 60", 1)]


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="3 references and 1 hypotheses"):
        score(REFERENCES, ["one"])
    with pytest.raises(UserError, match="3 references and 2 sources"):
        score(REFERENCES, REFERENCES, ["one", "two"])
    with pytest.raises(UserError, match="nothing"):
        score([], [])


def test_any_of_several_references_will_do() -> None:
    others = ["A man rides a horse that is brown.", "Dogs are running over the grass."]
    hypotheses = [others[0], REFERENCES[1], REFERENCES[2]]
    references = [(REFERENCES[0], others[0]), REFERENCES[1], (others[1], others[0], REFERENCES[2])]
    result = score(references, hypotheses, ["a b", "c", "d"])
    assert result.bleu == pytest.approx(100) and result.length_ratio == 1
    assert "nrefs:var" in result.signature
    assert result.by_length[0].bleu == pytest.approx(100)
    assert score(REFERENCES, hypotheses).bleu < 90
    with pytest.raises(UserError, match="sentence 2 has no reference"):
        score([REFERENCES[0], ()], hypotheses[:2])


def test_missing_sacrebleu_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(UserError, match=r"-c constraints\.txt -e '\.\[translation\]'"):
        score(REFERENCES, REFERENCES)


def test_phrase_bleu_is_the_formula() -> None:
    assert phrase_bleu("va !", "va !", 2) == 1
    assert phrase_bleu("va !", "", 2) == 0
    assert phrase_bleu("va !", "stop .", 2) == 0
    one_word_wrong = math.sqrt(3 / 4) * (1 / 3) ** 0.25
    assert phrase_bleu("il est calme .", "il est riche .", 2) == pytest.approx(one_word_wrong)
    too_short = math.exp(1 - 4 / 2)
    assert phrase_bleu("il est calme .", "il est", 2) == pytest.approx(too_short)
    assert phrase_bleu("va", "va va va", 1) == pytest.approx(math.sqrt(1 / 3))
