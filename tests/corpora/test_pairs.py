"""Pairs: read completely or refused with file and line; no source is on both sides of a split."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.corpora.pairs import (
    Pair,
    gather,
    hold_out,
    part,
    read_classes,
    read_pairs,
    read_parallel,
    read_sentences,
    sentence_key,
    tidy,
    tokenise,
)
from asr.errors import UserError

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
MANY = [Pair(f"{a} {b}.", str(i)) for a in NUMBERS for b in NUMBERS for i in range(2)]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_plain_and_packed_files_read_alike(tmp_path: Path) -> None:
    text = "Go.\tVa !\nI lost.\tJ'ai perdu.\n"
    packed = tmp_path / "pairs.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    expected = [Pair("Go.", "Va !"), Pair("I lost.", "J'ai perdu.")]
    assert read_pairs(write(tmp_path / "pairs.tsv", text)) == expected
    assert read_pairs(packed) == expected


def test_what_is_not_part_of_a_pair_is_passed_over(tmp_path: Path) -> None:
    text = "\ufeffGo.\tVa\u202f!\tsomeone, CC-BY\r\n\r\nHi.\tSalut\xa0!\r\n \n"
    pairs = read_pairs(write(tmp_path / "pairs.tsv", text))
    assert pairs == [Pair("Go.", "Va !"), Pair("Hi.", "Salut !")]


def test_limit_takes_the_first_pairs_and_reads_no_further(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "a\tb\nc\td\nno tab here\n")
    assert read_pairs(path, limit=2) == [Pair("a", "b"), Pair("c", "d")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nGo. Va !\n", r"pairs\.tsv:2: no tab in 'Go\. Va !'"),
        ("a\tb\n\nc\t \n", r"pairs\.tsv:3: the target is empty"),
        ("\tb\n", r"pairs\.tsv:1: the source is empty"),
        ("", r"pairs\.tsv: no pairs in it"),
        ("\n\n", r"pairs\.tsv: no pairs in it"),
    ],
)
def test_a_bad_file_is_named_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_pairs(write(tmp_path / "pairs.tsv", text))
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_pairs(tmp_path / "nowhere.tsv")
    latin = tmp_path / "latin.tsv"
    latin.write_bytes("a\tb\nWow!\tÇa alors !\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.tsv:2: not UTF-8"):
        read_pairs(latin)
    for number, damage in enumerate((b"no gzip", gzip.compress(b"a\tb\n" * 99)[:-12])):
        damaged = tmp_path / f"{number}.gz"
        damaged.write_bytes(damage)
        with pytest.raises(UserError, match="cannot be read"):
            read_pairs(damaged)


def test_tokens_are_those_of_the_translation_chapters() -> None:
    assert tokenise("Go.") == "go ."
    assert tokenise("Va\u202f!") == "va !"
    assert tokenise("He's calm, I\u2019m home...") == "he's calm , i'm home . . ."
    assert tokenise("À l'aide ?") == "à l'aide ?"


@given(st.text())
def test_tokenising_again_changes_nothing(text: str) -> None:
    once = tokenise(text)
    assert tokenise(once) == once
    assert tidy(once) == once


def test_hold_out_parts_the_pairs_and_keeps_sources_together() -> None:
    train, held = hold_out(MANY, 0.3)
    assert sorted(train + held) == sorted(MANY)
    assert 0.2 < len(held) / len(MANY) < 0.4
    assert not {pair.source for pair in train} & {pair.source for pair in held}


def test_spellings_of_one_sentence_stay_together() -> None:
    spellings = [Pair(each, "x") for each in ("One two.", "one two !", "ONE, TWO")]
    for share in (0.1, 0.5, 0.9):
        assert [] in hold_out(spellings, share)


def test_a_longer_file_moves_no_sentence() -> None:
    train, held = hold_out(MANY[:60], 0.3)
    more_train, more_held = hold_out(MANY, 0.3)
    assert set(train) <= set(more_train) and set(held) <= set(more_held)


def test_share_has_its_ends_and_what_is_kept_is_never_held_out() -> None:
    assert hold_out(MANY, 0.0) == (MANY, [])
    assert hold_out(MANY, 1.0) == ([], MANY)
    train, _ = hold_out(MANY, 1.0, keep=["One ten !"])
    assert train == [pair for pair in MANY if pair.source == "one ten."]


def test_parallel_files_pair_line_by_line(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", "Go.\n\n I  lost.\n")
    target = tmp_path / "a.fr.gz"
    target.write_bytes(gzip.compress("Va\u202f!\r\n\r\nJ'ai perdu.\r\n".encode()))
    expected = [Pair("Go.", "Va !"), Pair("I lost.", "J'ai perdu.")]
    assert read_parallel(source, target) == expected
    assert read_parallel(source, target, limit=1) == expected[:1]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "c\n", r"a\.fr: ends after 1 lines"),
        ("a\n", "c\nd\n", r"a\.en: ends after 1 lines"),
        ("a\n\n", "c\nd\n", r"a\.en:2: blank"),
        ("a\nb\n", "c\n\n", r"a\.fr:2: blank"),
        ("", "", r"a\.en: no pairs"),
    ],
)
def test_files_that_are_not_parallel_are_refused(
    tmp_path: Path, source: str, target: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read_parallel(write(tmp_path / "a.en", source), write(tmp_path / "a.fr", target))


def test_lists_take_every_spelling_and_leave_none(tmp_path: Path) -> None:
    pairs = [Pair(*each) for each in (("Go!", "Va !"), ("go .", "Vas-y."), ("Hi.", "Salut."))]
    listed = read_sentences(write(tmp_path / "list.txt", "GO.\n\nNever met.\n"))
    assert listed == ["GO.", "Never met."]
    rest, (taken, also) = part(pairs, [listed, ["Hi.", "Go."]])
    assert (rest, taken, also) == ([], pairs[:2], pairs[2:])
    assert part(pairs, []) == (pairs, [])


def test_sentences_without_words_stand_for_themselves() -> None:
    assert sentence_key("It's: HERE!") == sentence_key("it s here")
    assert sentence_key("?!") != sentence_key("...")


def test_translations_are_gathered_once_each() -> None:
    pairs = [Pair("a", "x"), Pair("b", "z"), Pair("a", "y"), Pair("a", "x")]
    assert gather(pairs) == {"a": ("x", "y"), "b": ("z",)}


def test_classes_are_parted_by_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "classes.tsv"
    path.write_text("\nMonday\tlundi\nFriday\tvendredi\n\n\nten\tdix\nsix\tsix\n", "utf-8")
    days, numbers = read_classes(path)
    assert days == [("Monday", "lundi"), ("Friday", "vendredi")]
    assert numbers == [("ten", "dix"), ("six", "six")]
    path.write_text("Monday\tlundi\n\nten\tdix\nsix\tsix\n", "utf-8")
    with pytest.raises(UserError, match="'Monday' is the only word of its class"):
        read_classes(path)
    path.write_text("Monday\n", "utf-8")
    with pytest.raises(UserError, match=r"classes\.tsv:1: no tab"):
        read_classes(path)
