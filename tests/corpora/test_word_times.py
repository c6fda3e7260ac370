"""Word times: files are read or refused, and words are matched with their times."""

import gzip
import json

import pytest

from asr.corpora.word_times import Timed, read_word_times, timed_words
from asr.errors import UserError

WORDS = [["the", 0.1, 0.2], ["cold", 0.2, 0.6], ["moon", 0.7, 1]]


@pytest.mark.parametrize("name", ["times.jsonl", "times.jsonl.gz"])
def test_lines_are_read_packed_or_not(tmp_path, name):
    lines = json.dumps({"id": "a", "words": WORDS}) + "\n\n" + json.dumps({"id": 7, "words": []})
    content = lines.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = read_word_times(tmp_path / name)
    assert found == {"a": [Timed(*each) for each in WORDS], "7": []}


@pytest.mark.parametrize(
    "line", ["words", '{"id": "a"}', '{"id": "a", "words": [["b", 1]]}', '{"id": "a", "words": 3}']
)
def test_another_line_is_named(tmp_path, line):
    (tmp_path / "times.jsonl").write_text(f'{{"id": "b", "words": []}}\n{line}\n')
    with pytest.raises(UserError, match=r"times\.jsonl:2: wanted"):
        read_word_times(tmp_path / "times.jsonl")


def test_a_file_that_is_not_there_or_not_packed_is_told(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_word_times(tmp_path / "no.jsonl")
    (tmp_path / "times.gz").write_text("plain")
    with pytest.raises(UserError, match="cannot be read"):
        read_word_times(tmp_path / "times.gz")


def test_words_find_their_times_where_there_is_no_doubt():
    times = [Timed(*each) for each in WORDS]
    assert timed_words("the cold moon", times) == dict(enumerate(times))
    assert timed_words("the moon the cold night", times) == {1: times[2], 3: times[1]}
    assert timed_words("the moon and the moon", times) == {}
    twice = [times[0], times[1]._replace(word="the"), times[2]]
    assert timed_words("the the moon", twice) == dict(enumerate(twice))  # all words in order
    assert timed_words("the moon", twice) == {1: times[2]}
    assert timed_words("", times) == {}
