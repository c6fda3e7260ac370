"""Resuming: what was found before an interruption is taken over, and nothing else."""

import numpy as np
import pytest

from asr.inference.journal import Journal
from asr.inference.pieces import Piece
from asr.results import Character, Segment, StopReason, Word


def piece(start, seconds=1.0):
    samples = np.zeros(round(seconds * 16_000), np.float32)
    return Piece(start, samples, np.ones(round(seconds * 100), bool))


def segment(start, text):
    words = (Word(text, start + 0.1, start + 0.7, 0.123456789),)
    characters = tuple(Character(each, start, start + 0.5, 1 / 3) for each in text)
    nothing = np.zeros((0, 0), np.float32)
    return Segment(start, start + 1.0, words, characters, nothing, -1 / 7, StopReason.EOS, -2.5)


def same(one, other):
    return repr(one) == repr(other) and one.characters == other.characters


GROUPS = [[piece(0.0), piece(1.0)], [piece(2.0)], [piece(3.0), piece(4.0)]]
FOUND = [[segment(each.start, "abc") for each in group] for group in GROUPS]


@pytest.fixture
def path(tmp_path):
    """Return a journal of all groups."""
    journal = Journal(tmp_path / "a.progress", {"recording": "a"})
    assert not journal.path.exists()  # until there is something to keep
    for group, found in zip(GROUPS, FOUND, strict=True):
        assert journal.known(group) is None
        journal.add(found)
    journal.close()
    return journal.path


def known(path, subject="a"):
    """Return how many groups are taken over, and check them; the others are added."""
    journal = Journal(path, {"recording": subject})
    count = 0
    for group, wanted in zip(GROUPS, FOUND, strict=True):
        found = journal.known(group)
        if found is None:
            journal.add(wanted)
        else:
            assert all(map(same, found, wanted))
            count += 1
    journal.close()
    return count


def test_all_is_taken_over_as_it_was(path):
    content = path.read_bytes()
    assert known(path) == 3
    assert path.read_bytes() == content


def test_a_line_that_is_torn_or_damaged_ends_what_is_taken_over(path):
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    path.write_bytes(content[:-5])
    assert known(path) == 2
    assert path.read_bytes() == content
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"abc", b"abd"), *lines[2:]]))
    assert known(path) == 0
    assert path.read_bytes() == content
    path.write_bytes(content[: len(lines[0]) - 1])
    assert known(path) == 0


def test_another_subject_begins_anew(path):
    other = Journal(path, {"recording": "b"})
    assert other.is_of_another and other.known(GROUPS[0]) is None
    other.close()
    assert known(path) == 3  # kept until there is something else
    assert known(path, "b") == 0
    assert known(path, "b") == 3


def test_other_pieces_are_not_taken_over(path):
    journal = Journal(path, {"recording": "a"})
    assert journal.known([piece(0.0), piece(1.0, 0.5)]) is None
    assert journal.known(GROUPS[1]) is None
    journal.remove()
    assert not path.exists()
