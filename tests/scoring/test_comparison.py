"""Two systems on the same utterances: a paired bootstrap of the difference of their WER."""

import json
from pathlib import Path

import numpy as np
import pytest

from asr.cli import main
from asr.scoring.comparison import compare
from asr.scoring.words import Scored, summarize

WORDS = 10
REFERENCE = " ".join("abcdefghij")


def system(errors: list[int], speaker: str | None = None) -> list[Scored]:
    """Return utterances of ten words with this many wrong ones."""
    return [
        Scored(
            f"u{place}",
            REFERENCE,
            " ".join(["x"] * wrong + REFERENCE.split()[wrong:]),
            speaker and f"{speaker}{place // 2}",
        )
        for place, wrong in enumerate(errors)
    ]


def test_a_system_and_itself_do_not_differ() -> None:
    same = system([0, 3, 7, 1])
    found = compare(same, same)
    assert found.difference == 0 and found.interval == (0, 0)
    assert found.better == found.worse == 0


def test_the_same_gain_on_every_utterance_is_certain_however_hard_they_are() -> None:
    before = [1, 9, 4, 2, 8, 5, 1, 7]
    first, second = system(before), system([each - 1 for each in before])
    found = compare(first, second)
    assert found.difference == pytest.approx(-0.1)
    assert found.interval == pytest.approx((-0.1, -0.1)) and found.better == 1 and found.worse == 0
    low, high = summarize(second).wer_interval
    assert low < summarize(first).wer < high  # the intervals alone could not tell them apart


def test_the_interval_covers_the_spread_of_the_differences() -> None:
    random = np.random.default_rng(0)
    before, after = random.integers(0, 11, (2, 400))
    found = compare(system(before.tolist()), system(after.tolist()))
    gains = (after - before) / WORDS
    half = 1.96 * gains.std() / np.sqrt(len(gains))
    wanted = (gains.mean() - half, gains.mean() + half)
    assert found.interval == pytest.approx(wanted, abs=0.006)
    reverse = compare(system(after.tolist()), system(before.tolist()))
    assert reverse.difference == -found.difference
    assert (reverse.better, reverse.worse) == (found.worse, found.better)


def test_speakers_are_resampled_if_there_are_enough() -> None:
    errors = [each % 5 for each in range(24)]
    assert compare(system(errors, "s"), system(errors, "s")).resampled == "speakers"
    few = compare(system(errors[:8], "s"), system(errors[:8], "s"))
    assert few.resampled == "utterances"


def test_the_command_compares_two_files(tmp_path: Path, capsys) -> None:
    files = []
    for name, errors in (("ref", [0] * 8), ("before", [2] * 8), ("after", [1] * 8)):
        files.append(tmp_path / f"{name}.txt")
        files[-1].write_text("\n".join(each.hypothesis for each in system(errors)), "utf-8")
    command = ["score", *map(str, files)]
    assert main(command) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == f"{files[1]}: WER 20.00% (16 errors in 80 words)"
    assert second == f"{files[2]}: WER 10.00% (8 errors in 80 words)"
    assert last == (
        "difference -10.00 points (95 % interval -10.00 to -10.00, over utterances); "
        "the second is better in 100% of the resamples and worse in 0%"
    )
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["difference"] == pytest.approx(-0.1)
    assert (figures["second_is_better"], figures["second_is_worse"]) == (1, 0)
    assert main([*command, str(files[1])]) == 2
    assert "wanted one, or two to compare" in capsys.readouterr().err
