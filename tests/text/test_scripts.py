"""Scripts without spaces: words, sentences, lines, scores and alignments of Chinese."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr import cli
from asr.alignment.links import merge_words
from asr.inference.subtitles import translate_cues, written
from asr.render.picture import draw_heat_map
from asr.render.subtitles import fit
from asr.results import Span
from asr.scoring.bleu import score, sentence_bleu
from asr.scoring.words import count_words
from asr.text.chinese import ChineseScript, script_of, to_simplified, to_traditional
from asr.text.scripts import is_unspaced, join_words, split_words, wrap_unspaced
from asr.text.sentences import split_sentences
from asr.translation import Translation, WordWeights

SENTENCES = ["我爱你。", "今天天气很好。", "那你呢？", "我不知道他什么时候会来。"]


@given(st.text(alphabet="我爱，。aB, .", max_size=20))
def test_words_hold_every_sign_once(text: str) -> None:
    words = split_words(text)
    assert "".join(words) == "".join(text.split())
    assert split_words(join_words(words)) == words


def test_words_and_spaces() -> None:
    assert split_words("我爱you, 好。") == ["我", "爱", "you,", "好", "。"]
    assert join_words(["我", "爱", "you", "and", "me", "。"]) == "我爱you and me。"
    assert is_unspaced("我爱你 OK") and is_unspaced("これは") and not is_unspaced("I love 你")


def test_sentences_end_without_a_space() -> None:
    assert split_sentences("你好！“是吗？”他说。Yes. No") == [
        "你好！",
        "“是吗？”",
        "他说。",
        "Yes.",
        "No",
    ]


@given(st.text(alphabet="我爱你，。a ", min_size=1, max_size=60), st.integers(4, 42))
def test_lines_are_no_wider_than_they_may_be(text: str, width: int) -> None:
    lines = wrap_unspaced(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(line[0] not in "，。" for line in lines[1:])
    assert fit("我爱你" * 10).count("\n") == 1


def test_bleu_of_chinese_counts_characters() -> None:
    assert score(SENTENCES, SENTENCES).bleu == pytest.approx(100)
    assert "tok:zh" in score(SENTENCES, SENTENCES).signature
    assert 0 < score(SENTENCES, ["我恨你。", *SENTENCES[1:]], own=True).bleu < 100
    assert sentence_bleu("我爱你们大家。", "我爱你们。") > 10
    assert "tok:13a" in score(["I love you."], ["I love you."]).signature
    assert "tok:char" in score(["これは本です。"], ["これは本です。"]).signature


def test_error_rates_of_chinese_count_characters(tmp_path: Path, capsys) -> None:
    assert count_words("我爱你", "我恨你").rate == pytest.approx(1 / 3)
    for name, text in (("ref.txt", "我爱你\n"), ("hyp.txt", "我恨你\n")):
        (tmp_path / name).write_text(text, "utf-8")
    files = [str(tmp_path / name) for name in ("ref.txt", "hyp.txt")]
    assert cli.main(["score", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["words"]["errors"] == 1
    assert cli.main(["score", *files, "--normalize"]) == 2
    assert "nothing is left of its texts" in capsys.readouterr().err


def test_each_token_of_chinese_is_a_row() -> None:
    source, target = ("▁I", "▁lo", "ve", "▁you", "<eos>"), ("▁我", "爱", "你", "。", "<eos>")
    found = merge_words(np.eye(5, dtype=np.float32), source, target, subwords=True)
    assert found.source == ("I", "love", "you", "<eos>")
    assert found.target == ("我", "爱", "你", "。", "<eos>")


def test_a_chinese_sentence_over_cues_is_translated_whole() -> None:
    asked: list[str] = []

    def echo(texts: list[str]) -> list[Translation]:
        asked.extend(texts)
        return [_echoed(text) for text in texts]

    cues = [Span("我不知道", 0, 1), Span("他什么时候会来。", 1.5, 2.5), Span("好。", 3, 4)]
    assert [written(turns) for turns in translate_cues(cues, echo)] == [each.text for each in cues]
    assert asked == ["我不知道他什么时候会来。", "好。"]


def _echoed(text: str) -> Translation:
    words = (*split_words(text), "<eos>")
    weights = np.eye(len(words), dtype=np.float32)
    links = WordWeights(words, words, weights)
    return Translation(text, text, (links,), (links,), 0.0, "eos")


def test_simplified_and_traditional_are_told_apart() -> None:
    assert script_of("我會開車。") is ChineseScript.TRADITIONAL
    assert script_of("我会开车。") is ChineseScript.SIMPLIFIED
    assert script_of("你好。") is ChineseScript.EITHER
    assert script_of("我會开車。") is ChineseScript.MIXED
    assert (
        to_simplified("我會開車。") == "我会开车。" and to_traditional("我会开车。") == "我會開車。"
    )


def test_missing_glyphs_are_one_warning(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("asr.render.picture.fonts", lambda: ["DejaVu Sans"])
    draw_heat_map(tmp_path / "x.png", np.eye(2), ["a", "b"], ["我", "爱"])
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line.startswith("asr: warning: no installed font has 我 爱;") and "fonts-noto-cjk" in line
    )
