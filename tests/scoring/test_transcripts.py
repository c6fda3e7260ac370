"""Transcript files are paired correctly, or refused in one line."""

import json
from pathlib import Path

import pytest

from asr.errors import UserError
from asr.scoring.transcripts import pair_transcripts, read_transcripts
from asr.scoring.words import Scored


def write(path: Path, *rows: object) -> Path:
    """Write one row per line; objects as JSON."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_text_files_pair_by_line_and_keep_empty_lines(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref.txt", "one two", "three", "")
    hypothesis = write(tmp_path / "hyp.txt", "one", "", "four")
    assert pair_transcripts(reference, hypothesis) == [
        Scored("1", "one two", "one"),
        Scored("2", "three", ""),
        Scored("3", "", "four"),
    ]


def test_json_lines_pair_by_id_in_any_order(tmp_path: Path) -> None:
    reference = write(
        tmp_path / "ref.jsonl",
        {"id": "a", "text": "x", "audio": "elsewhere/1.flac", "speaker": 7, "duration": 2.5},
        {"id": "b", "text": "y"},
    )
    hypothesis = write(
        tmp_path / "hyp.jsonl", {"path": "audio/b.flac", "text": "B"}, {"id": "a", "text": "A"}
    )
    assert pair_transcripts(reference, hypothesis) == [
        Scored("a", "x", "A", "7", 2.5),
        Scored("b", "y", "B"),
    ]


def test_windows_line_ends_and_marks_do_not_reach_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\u2028three\r\n".encode())
    assert [line.text for line in read_transcripts(tmp_path / "a.txt")] == ["one", "two\u2028three"]


def test_mismatches_are_refused(tmp_path: Path) -> None:
    two = write(tmp_path / "two.txt", "a", "b")
    one = write(tmp_path / "one.txt", "a")
    tagged = write(tmp_path / "tagged.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "y"})
    fewer = write(tmp_path / "fewer.jsonl", {"id": "a", "text": "x"})
    for reference, hypothesis, message in (
        (two, one, "has 2 lines .* has 1"),
        (two, tagged, "two .jsonl files"),
        (tagged, fewer, "fewer.jsonl lacks 1 .* b"),
        (fewer, tagged, "fewer.jsonl lacks 1 .* b"),
    ):
        with pytest.raises(UserError, match=message):
            pair_transcripts(reference, hypothesis)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "bad.jsonl:2: not JSON"),
        ('{"text": "x"}', 'bad.jsonl:2: wanted an object with "id"'),
        ('{"id": "a", "text": null}', "bad.jsonl:2"),
        ('{"id": "a", "text": "x", "duration": "long"}', "seconds"),
        ('{"id": "first", "text": "x"}', "first occurs twice"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path / "bad.jsonl", {"id": "first", "text": ""}, row)
    with pytest.raises(UserError, match=message):
        read_transcripts(path)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.txt: cannot be read"):
        read_transcripts(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="UTF-8"):
        read_transcripts(tmp_path / "latin.txt")
