"""Subtitle translation: sentences over several cues are translated whole and split by weights."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.inference.subtitles import cut, translate_cues, written
from asr.results import Span
from asr.translation import Translation, WordWeights

asked: list[str] = []


def loudly(texts: list[str]) -> list[Translation]:
    """Translate each word into capitals with all attention on it; record the sources."""
    asked[:] = texts
    return [shout(text) for text in texts]


def shout(text: str) -> Translation:
    source = (*text.split(), "<eos>")
    target = (*text.upper().split(), "<eos>")
    weights = np.eye(len(source), dtype=np.float32)
    links = WordWeights(source, target, weights)
    return Translation(text, text.upper(), (links,), (links,), 0.0, "eos")


def spans(*texts: str, gap: float = 0.5) -> list[Span]:
    return [Span(text, n * (1 + gap), n * (1 + gap) + 1) for n, text in enumerate(texts)]


def texts_of(cues: list[Span]) -> list[str]:
    return [written(turns) for turns in translate_cues(cues, loudly)]


def test_a_sentence_over_cues_is_asked_as_a_whole_and_given_back_in_parts() -> None:
    cues = spans("I know", "where you are, but", "who knows? No one", "does. Go.")
    lines = ["I KNOW", "WHERE YOU ARE, BUT", "WHO KNOWS? NO ONE", "DOES. GO."]
    assert texts_of(cues) == lines
    assert asked == ["I know where you are, but who knows? No one does. Go."]


def test_names_of_speakers_are_kept() -> None:
    cues = spans("JOHN: I know", "where you are.\n<i>MARY:</i> go on", ">> who knows")
    lines = ["JOHN: I KNOW", "WHERE YOU ARE.\n<i>MARY:</i> GO ON", ">> WHO KNOWS"]
    assert texts_of(cues) == lines
    assert asked == ["I know where you are.", "go on", "who knows"]


@pytest.mark.parametrize(
    "cues",
    [
        spans("I know.", "where you are"),  # an end
        spans("I know", "Where you are"),  # a beginning
        spans("i know", "where you are"),  # lower case, as in transcripts
        spans("I know", "- where you are"),  # another speaker
        spans("I know", "where you are", gap=2.5),  # a pause
        spans("I know", "", "where you are"),  # an empty cue between
        spans("I know " + "all " * 20, "that " * 20 + "you know"),  # too long for one sentence
    ],
)
def test_what_does_not_go_on_is_translated_alone(cues: list[Span]) -> None:
    translate_cues(cues, loudly)
    assert asked == [each.text.removeprefix("- ").strip() for each in cues if each.text]


def test_sentences_that_are_over_do_not_count() -> None:
    cues = spans("I know. " * 30 + "You", "know", "too. " + "Yes. " * 60 + "We", "know.")
    translate_cues(cues, loudly)
    assert len(asked) == 1


def test_speakers_keep_their_lines() -> None:
    cues = spans("- Who?\n- You", "and me.")
    assert texts_of(cues) == ["- WHO?\n- YOU", "AND ME."]
    assert asked == ["Who?", "You and me."]


@pytest.mark.parametrize(
    ("text", "sources", "expected"),
    [
        ("[door slams]", [], "[door slams]"),
        ("(door slams)", [], "(door slams)"),
        ("♪ la la ♪", [], "♪ la la ♪"),
        ("♪ it goes on", [], "♪ it goes on"),
        ("and ends ♪", [], "and ends ♪"),
        ("- ♪ la ♪\n- No.", ["No."], "- ♪ la ♪\n- NO."),
        ("- Who?\n<i>♪ la ♪</i>\n♪ lo ♪\nI.", ["Who?", "I."], "- WHO?\n<i>♪ la ♪</i>\n♪ lo ♪\nI."),
        ("♪ la\nla ♪", [], "♪ la la ♪"),
        (
            "{\\an8}<i>I <b>do</b> mean <u>it</u>.</i>",
            ["I do mean it."],
            "{\\an8}<i>I <b>DO</b> MEAN <u>IT.</u></i>",
        ),
        ("- [sighs] Who? [coughs] I", ["Who?", "I"], "- [sighs] WHO? [coughs] I"),
        ("<i>You</i>, of course!", ["You, of course!"], "<i>YOU,</i> OF COURSE!"),
        ("<i>- Hi.</i>\n<i>- Ho.</i>", ["Hi.", "Ho."], "<i>- HI.</i>\n<i>- HO.</i>"),
        ("un<b><i>believ</i></b>able", ["unbelievable"], "<b><i>UNBELIEVABLE</i></b>"),
        ("a <5 and 6> 7", ["a <5 and 6> 7"], "A <5 AND 6> 7"),
    ],
)
def test_markup_is_kept_and_not_translated(text: str, sources: list[str], expected: str) -> None:
    assert texts_of(spans(text)) == [expected]
    assert asked == sources


def test_a_sound_between_cues_does_not_end_a_sentence_within_one() -> None:
    assert texts_of(spans("I [sighs] know", "you.")) == ["I [sighs] KNOW", "YOU."]
    assert asked == ["I know you."]
    texts_of(spans("I know", "[sighs]", "you."))
    assert asked == ["I know", "you."]


def test_words_go_where_they_looked_and_marks_stay_with_their_words() -> None:
    source, target = ("a", "bb", "c", "dd", "<eos>"), ("W", "X", "?", "Y", "Z", "<eos>")
    weights = np.zeros((6, 5), np.float32)
    for row, column in enumerate([0, 1, 2, 1, 3, 4]):  # the punctuation attends to the second part
        weights[row, column] = 1
    found = WordWeights(source, target, weights)
    assert cut(found, ["a bb", "c dd"]) == ["W X ? Y", "Z"]
    assert cut(found, ["a", "bb c dd"]) == ["W", "X ? Y Z"]
    weights[1:4] = [[0, 1, 0, 0, 0], [0, 0, 0.5, 0, 0.5], [0, 0, 0, 1, 0]]
    assert cut(found, ["a bb", "c dd"]) == ["W X ?", "Y Z"]


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 7))
def test_the_best_of_all_cuts_is_found(seed: int, parts: int, length: int) -> None:
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.ones(parts + 1), length + 1).astype(np.float32)
    source = tuple(f"s{n}" for n in range(parts))
    target = tuple(f"w{n}" for n in range(length))
    found = WordWeights((*source, "<eos>"), (*target, "<eos>"), weights)
    texts = cut(found, source)
    assert len(texts) == parts and " ".join(filter(None, texts)) == " ".join(target)
    if parts > length:
        return

    def total(stops: tuple[int, ...]) -> float:
        edges = (0, *stops, length)
        return sum(weights[edges[n] : edges[n + 1], n].sum() for n in range(parts))

    sizes = np.cumsum([len(text.split()) for text in texts])[:-1].tolist()
    best = max(map(total, combinations(range(1, length), parts - 1)))
    assert total(tuple(sizes)) == pytest.approx(best, abs=1e-5)


def test_unknown_words_are_counted_by_their_share_of_the_letters() -> None:
    found = shout("a b c d")
    unknown = ("<unk>",) * 4 + ("<eos>",)
    assert cut(found.words._replace(source=unknown), ["a b", "c d"]) == ["A B", "C D"]
