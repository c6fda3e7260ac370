"""Names are written as they were given, and nothing else changes."""

import pytest

from asr.text.names import Names

GIVEN = ["Fuchs", "Ithaca", "McDonald", "iPhone", "University of Ithaca", "quilter", "Jean-Luc"]


@pytest.mark.parametrize(
    ("spellings", "wanted"),
    [
        ("The gospel fuchs brought.", "The gospel Fuchs brought."),
        ("To ithaca, mcdonald? Mcdonald.", "To Ithaca, McDonald? McDonald."),
        ("Iphone of fuchs's.", "iPhone of Fuchs's."),
        ("A University Of ithaca.", "A University Of Ithaca."),
        ("Jean luc and quilter.", "Jean Luc and quilter."),
        ("The university.", "The university."),
    ],
)
def test_names_are_written_as_given(spellings: str, wanted: str) -> None:
    words = [each.lower().strip(",.?") for each in spellings.split()]
    assert " ".join(Names(GIVEN).written(words, spellings.split())) == wanted


def test_titles_have_one_full_stop() -> None:
    names = Names(["Mister Fuchs", "Dr. Who", "IBM 360"])
    assert names.written(["mister", "fuchs"], ["Mr.", "fuchs,"]) == ("Mister", "Fuchs,")
    assert names.written(["doctor", "who"], ["doctor", "who."]) == ("Dr.", "Who.")
    assert names.written(["i", "b", "m"], ["I", "b", "m"]) == ("I", "b", "m")
