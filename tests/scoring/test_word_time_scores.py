"""Word times against a reference: the errors, and every file format that is read."""

import gzip
import json
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr import cli
from asr.errors import UserError
from asr.render.subtitles import to_ctm, to_textgrid
from asr.results import Span
from asr.scoring.timed_files import read_timed_words
from asr.scoring.word_times import score_word_times, word_errors

TEXT = "the war message concluded with the fight"


def spans(text=TEXT, early=0.0, late=0.0):
    """Return the words of a text, half a second each."""
    return [
        Span(word, 1 + at / 2 + early, 1.5 + at / 2 + late) for at, word in enumerate(text.split())
    ]


offsets = st.floats(-0.2, 0.2).map(lambda each: round(each, 3))


@given(offsets, offsets)
def test_a_constant_shift_is_found_again(early, late):
    scores = score_word_times({"a": spans()}, {"a": spans(early=early, late=late)})
    assert (scores.reference, scores.hypothesis, scores.same) == (7, 7, 7)
    assert scores.starts.signed == pytest.approx(1000 * early, abs=1e-6)
    assert scores.ends.signed == pytest.approx(1000 * late, abs=1e-6)
    assert scores.both.mean == pytest.approx(500 * (abs(early) + abs(late)), abs=1e-6)
    largest = max(abs(early), abs(late))
    assert scores.f1 == (100 * (largest <= 0.05), 100 * (largest <= 0.2))
    assert scores.starts.near[1] == 100 * (abs(early) <= 0.025)


def test_words_that_are_missing_or_other_count_against_f1():
    other = spans("the war passage concluded with the")
    scores = score_word_times({"a": spans(), "b": spans()}, {"a": other, "c": spans()})
    assert (scores.reference, scores.hypothesis, scores.same) == (14, 6, 5)
    assert scores.both.mean == pytest.approx(0, abs=1e-6)
    assert scores.f1 == pytest.approx((100 * 2 * 5 / 20,) * 2)


def test_words_of_unknown_time_are_aligned_and_not_scored():
    reference = [each._replace(start=nan) if each.text == "the" else each for each in spans()]
    assert len(word_errors(reference, spans())) == 5
    assert word_errors([], spans()) == [] == word_errors(spans(), [])


def test_no_word_found_has_no_distances():
    scores = score_word_times({"a": spans()}, {})
    assert (scores.same, scores.both, scores.f1) == (0, None, (0.0, 0.0))


def files(folder, name, words):
    """Write the words in every format."""
    record = {"path": f"/x/{name}.flac", "words": [
        {"word": each.text, "start": each.start, "end": each.end} for each in words
    ]}  # fmt: skip
    aligned = {"id": name, "words": [list(each[:3]) for each in words]}
    contents = {
        f"{name}.ctm": ";; a comment\n" + to_ctm(name, words),
        f"{name}.TextGrid": to_textgrid({"characters": [], "words": words}, 9.0),
        f"{name}.json": json.dumps([record]),
        f"{name}-one.json": json.dumps(record),
        f"{name}.jsonl": json.dumps(record) + "\n",
    }
    for file, content in contents.items():
        (folder / file).write_text(content, "utf-8")
    with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
        file.write(json.dumps(aligned) + "\n")
    return [folder / file for file in (*contents, f"{name}.jsonl.gz")]


def test_all_formats_hold_the_same_words(tmp_path):
    for path in files(tmp_path, "talk", spans()):
        ((name, words),) = read_timed_words(path).items()
        assert name == "talk"
        for one, two in zip(words, spans(), strict=True):
            assert one.text == two.text and one[1:3] == pytest.approx(two[1:3])


@pytest.mark.parametrize("tier", ["word", "Words", "Mary - words"])
def test_a_tier_of_words_is_preferred_to_the_first_one(tmp_path, tier):
    path = tmp_path / "a.TextGrid"
    path.write_text(to_textgrid({"phones": [], "swords": [], tier: spans()}, 9.0), "utf-8")
    assert [each.text for each in read_timed_words(path)["a"]] == [each.text for each in spans()]


def test_words_of_several_speakers_are_in_order_of_time(tmp_path):
    path = tmp_path / "a.TextGrid"
    tiers = {"A - words": spans()[::2], "A - phones": [], "B - words": spans()[1::2]}
    path.write_text(to_textgrid(tiers, 9.0), "utf-8")
    assert [each.text for each in read_timed_words(path)["a"]] == [each.text for each in spans()]


def test_a_folder_holds_the_recordings_of_its_files(tmp_path, capsys):
    (tmp_path / "day").mkdir()
    for name in ("a", "day/b"):
        (tmp_path / f"{name}.TextGrid").write_text(to_textgrid({"words": spans()}, 9.0), "utf-8")
    (tmp_path / "notes.txt").write_text("no times", "utf-8")
    found = read_timed_words(tmp_path)
    assert {name: len(words) for name, words in found.items()} == {"a": 7, "b": 7}
    assert cli.main(["score-alignment", str(tmp_path), str(tmp_path)]) == 0
    assert "14 words in the reference, 14 in the hypothesis" in capsys.readouterr().out
    (tmp_path / "b.ctm").write_text("b 1 0 1 word\n", "utf-8")
    with pytest.raises(UserError, match=r"b\.ctm and .*b\.TextGrid: both have a recording b"):
        read_timed_words(tmp_path)
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="none: no word times in this folder"):
        read_timed_words(tmp_path / "none")


BAD = {
    "a.ctm": "talk 1 0.5 word\n",
    "b.ctm": "talk 1 x 0.5 word\n",
    "c.TextGrid": "no grid",
    "d.json": "{",
    "e.json": '{"words": [["a", 0, 1]]}',
    "f.jsonl": '{"id": "a", "words": [["a", 1, 0]]}\n',
    "g.jsonl": '{"id": "a", "words": [["a", "x", 0]]}\n',
    "h.json": "[1]",
    "i.txt": "words",
}


@pytest.mark.parametrize("name", BAD)
def test_other_files_are_one_line(tmp_path, name):
    path = tmp_path / name
    path.write_text(BAD[name], "utf-8")
    with pytest.raises(UserError, match=name):
        read_timed_words(path)
    with pytest.raises(UserError, match=r"missing\.json"):
        read_timed_words(tmp_path / "missing.json")


def test_the_command_compares_two_files(tmp_path, capsys):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    reference = files(tmp_path / "one", "talk", [each._replace(text=f"{each.text.title()}," )
                                                 for each in spans()])  # fmt: skip
    hypothesis = files(tmp_path / "two", "other", spans(early=0.02, late=-0.01))
    arguments = ["score-alignment", str(reference[1]), str(hypothesis[0])]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "7 words in the reference, 7 in the hypothesis, 7 the same" in out
    assert cli.main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["starts"]["signed"] == pytest.approx(20)
    assert report["both"]["mean"] == pytest.approx(15)
    assert report["f1"] == [100, 100]


def test_recordings_are_paired_by_name(tmp_path, capsys):
    lines = [{"id": each, "words": [["a", 0, 1]]} for each in "abc"]
    for name, kept in (("all", lines), ("some", lines[1:]), ("none", [])):
        text = "".join(json.dumps(each) + "\n" for each in kept)
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    paths = {each: str(tmp_path / f"{each}.jsonl") for each in ("all", "some", "none")}
    assert cli.main(["score-alignment", paths["all"], paths["some"]]) == 0
    assert "1 recordings are missing, the first is a" in capsys.readouterr().err
    assert cli.main(["score-alignment", paths["all"], paths["none"]]) == 2
    assert capsys.readouterr().err == f"asr: error: {paths['none']}: no words in it\n"
