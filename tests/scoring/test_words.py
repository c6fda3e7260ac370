"""Error rates: counts checked by hand, and identities."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asr.errors import UserError
from asr.scoring.words import (
    ErrorCounts,
    Scored,
    count_characters,
    count_words,
    report,
    summarize,
    to_dict,
    worst,
)

# No deadline: on a busy machine an example may be slow.
patient = settings(deadline=None)
texts = st.text(alphabet="ab ", max_size=12)


def corpus(speakers: int = 2, each: int = 6) -> list[Scored]:
    """Return utterances of 1, 2, … words; the first speaker has all words wrong, others none."""
    items = []
    for speaker in range(speakers):
        for n in range(1, each + 1):
            reference = " ".join(["word"] * n)
            hypothesis = reference.replace("word", "bird") if speaker == 0 else reference
            items.append(Scored(f"{speaker}-{n}", reference, hypothesis, f"s{speaker}", float(n)))
    return items


@pytest.mark.parametrize(
    ("reference", "hypothesis", "wanted"),
    [
        ("a b c", "a b c", ErrorCounts(0, 0, 0, 3)),
        ("a b c", "a x c", ErrorCounts(1, 0, 0, 3)),
        ("a b c", "a c", ErrorCounts(0, 1, 0, 3)),
        ("a b c", "a b b c", ErrorCounts(0, 0, 1, 3)),
        ("a b c", "", ErrorCounts(0, 3, 0, 3)),
        ("", "a b", ErrorCounts(0, 0, 2, 0)),
        ("  ", "", ErrorCounts(0, 0, 0, 0)),
        ("a\tb\n", " a  b", ErrorCounts(0, 0, 0, 2)),
    ],
)
def test_words_by_hand(reference: str, hypothesis: str, wanted: ErrorCounts) -> None:
    assert count_words(reference, hypothesis) == wanted


def test_characters_by_hand() -> None:
    assert count_characters("ab cd", "ab  d") == ErrorCounts(0, 1, 0, 5)
    assert count_characters("", "abc") == ErrorCounts(0, 0, 3, 0)


@patient
@given(texts, texts)
def test_insertions_and_deletions_make_up_the_difference_in_length(a: str, b: str) -> None:
    found, back = count_words(a, b), count_words(b, a)
    assert found.insertions - found.deletions == len(b.split()) - len(a.split())
    assert found.errors == back.errors <= max(len(a.split()), len(b.split()))
    assert (found.errors == 0) == (a.split() == b.split())


def test_counts_add_up_and_rates_are_divided_last() -> None:
    total = ErrorCounts(1, 0, 0, 1) + ErrorCounts(0, 0, 1, 9)
    assert total == ErrorCounts(1, 0, 1, 10)
    assert total.rate == 0.2
    assert ErrorCounts(insertions=3).rate == 3.0
    assert ErrorCounts().rate == 0.0


def test_summary_weighs_utterances_by_their_words() -> None:
    summary = summarize(
        [Scored("1", "a", "b"), Scored("2", "a b c d e f g h i", "a b c d e f g h i")]
    )
    assert summary.wer == 0.1
    assert summary.perfect == 1
    assert [item.id for item in summary.worst] == ["1"]


def test_groups_share_the_utterances_out() -> None:
    summary = summarize(corpus())
    for groups in (summary.by_length, summary.by_speaker, summary.by_rate):
        assert sum(group.utterances for group in groups) == 12
        assert sum((group.words for group in groups), ErrorCounts()) == summary.total.words
    assert [group.name for group in summary.by_length] == ["1 to 5", "6 to 10"]
    assert [(group.name, group.words.rate) for group in summary.by_speaker] == [
        ("s0", 1),
        ("s1", 0),
    ]


def test_the_worst_quarter_of_the_speakers_is_summed() -> None:
    items = [Scored(str(n), "a b c d", "a b c d"[: 2 * n], f"s{n % 8}") for n in range(1, 9)]
    worst = summarize(items).worst_quarter
    assert worst is not None and (worst.name, worst.utterances) == ("worst 2 of 8", 2)
    assert worst.words == ErrorCounts(deletions=5, reference=8)
    assert summarize(items[:3]).worst_quarter is None


def test_errors_are_grouped_by_gender_and_accent() -> None:
    items = [
        Scored("1", "a", "a", gender="F", accent="Wales"),
        Scored("2", "a", "b", gender="M"),
        Scored("3", "a", "b"),
    ]
    summary = summarize(items)
    assert [(one.name, one.words.rate) for one in summary.by_gender] == [("M", 1), ("F", 0)]
    assert [one.name for one in summary.by_accent] == ["Wales"]
    assert "gender" in report(summary) and to_dict(summary)["by_accent"][0]["name"] == "Wales"


def test_groups_of_what_is_not_known_are_left_out() -> None:
    summary = summarize([Scored("1", "a b", "a b"), Scored("2", "", "oh no")])
    assert summary.by_speaker == summary.by_rate == ()
    assert [group.name for group in summary.by_length] == ["none", "1 to 5"]


def test_slow_speech_comes_before_fast() -> None:
    items = [
        Scored(str(i), "abcd", "abcd", duration=seconds) for i, seconds in enumerate((1, 4, 2))
    ]
    assert [group.name for group in summarize(items).by_rate] == [
        "slow, 1.0 to 1.0 characters/s",
        "medium, 2.0 to 2.0 characters/s",
        "fast, 4.0 to 4.0 characters/s",
    ]


def test_overlong_hypothesis_is_named() -> None:
    items = [Scored("fine", "abcd", "abcd"), Scored("loop", "ab", "ab ab ab"), Scored("e", "", "x")]
    assert summarize(items).longest == ("loop", 4.0)
    assert summarize(items[2:]).longest is None


def test_interval_holds_the_rate_and_repeats_with_its_seed() -> None:
    items = corpus(each=20)
    summary = summarize(items)
    assert summary.wer_interval.low < summary.wer < summary.wer_interval.high
    assert summarize(items).wer_interval == summary.wer_interval
    assert summarize(items, seed=1).wer_interval != summary.wer_interval


def test_speakers_are_resampled_when_there_are_enough_and_make_it_wider() -> None:
    known = corpus(speakers=12, each=8)
    unknown = [item._replace(speaker=None) for item in known]
    by_speaker, by_utterance = summarize(known), summarize(unknown)
    assert (by_speaker.resampled, by_utterance.resampled) == ("speakers", "utterances")
    assert summarize(corpus(speakers=2)).resampled == "utterances"
    widths = [high - low for low, high in (by_speaker.wer_interval, by_utterance.wer_interval)]
    assert widths[0] > widths[1]


def test_perfect_corpus_has_no_interval_to_speak_of() -> None:
    assert summarize([Scored("1", "a", "a")] * 3).wer_interval == (0.0, 0.0)


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to score"):
        summarize([])


def test_worst_draws_aligned_lines() -> None:
    items = [
        Scored("good", "the cat", "the cat"),
        Scored("bad", "the cat sat", "a cat sat down"),
        Scored("worse", "", "well well well"),
    ]
    assert worst(items).split("\n") == [
        "worse: 3 errors in 0 words (0 S, 0 D, 3 I)",
        "REF: **** **** ****",
        "HYP: well well well",
        "        I    I    I",
        "",
        "bad: 2 errors in 3 words (1 S, 0 D, 1 I)",
        "REF: the cat sat ****",
        "HYP:   a cat sat down",
        "       S            I",
    ]
    assert worst(items, count=1).startswith("worse")
    assert "bad" not in worst(items, count=1)


def test_worst_wraps() -> None:
    drawn = worst([Scored("long", "word " * 50, "bird " * 50)], width=40)
    assert max(len(line) for line in drawn.split("\n")[1:]) <= 40
    assert drawn.count("REF:") > 5


def test_report_and_json_tell_the_same() -> None:
    summary = summarize(corpus())
    assert "WER 50.00%" in report(summary)
    assert "s0" in report(summary)
    told = json.loads(json.dumps(to_dict(summary)))
    assert told["wer"] == 0.5
    assert told["total"]["words"]["errors"] == 21
    assert told["worst"][0]["id"] == "0-6"
