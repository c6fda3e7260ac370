"""Confident transcripts become a corpus; transcripts without end-of-sentence are discarded."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.corpora import check_manifest, read_manifest
from asr.corpora.pseudo_labels import Label, prepare, surest
from asr.errors import UserError

RATE = 16_000


def label(text: str = "some words", per_token: float = -0.1, **changed) -> Label:
    total = per_token * (len(text) + 1)
    return Label(**{**Label(0.0, 2.0, text, total, "eos")._asdict(), **changed})


@pytest.mark.parametrize(
    "useless",
    [
        label(""),
        label(stop_reason="length"),
        label(stop_reason="repeat"),
        label(end=0.3),  # 10 characters in 0.3 s
        label("a", end=0.05),
        label(end=200.0),
    ],
)
def test_what_no_one_can_learn_from_is_never_taken(useless: Label) -> None:
    assert useless.confidence == -math.inf
    assert label().confidence == pytest.approx(-0.1)
    assert surest([useless, label(per_token=-9), useless], 1) == [1]
    assert surest([useless], 1) == []


def test_the_surest_by_token_are_taken_in_their_order() -> None:
    labels = [label("a" * length, sure) for length, sure in ((9, -0.3), (2, -0.4), (30, -0.1))]
    assert (
        labels[2].log_probability < labels[1].log_probability
    )  # the order of the sums is reversed
    assert surest(labels, 1) == [0, 1, 2]
    assert surest(labels, 2 / 3) == [0, 2]
    assert surest(labels, 0.1) == [2]  # at least one


def write_transcripts(file: Path, recordings: dict[Path, list[Label]]) -> Path:
    lines = [
        json.dumps({"path": str(path), "segments": [each._asdict() for each in labels]})
        for path, labels in recordings.items()
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    ramp = np.linspace(-0.5, 0.5, 6 * RATE, dtype=np.float32)  # the value encodes the time
    soundfile.write(tmp_path / "long.wav", ramp, RATE)
    soundfile.write(tmp_path / "short.flac", ramp[: 2 * RATE], RATE)
    return write_transcripts(
        tmp_path / "all.jsonl",
        {
            tmp_path / "long.wav": [
                label("first", -0.2, end=1.5),
                label("unsure", -3.0, start=1.5, end=3.5),
                label("it's last", -0.1, start=3.5, end=6.0),
            ],
            tmp_path / "short.flac": [label("whole", -0.3)],
        },
    )


def test_each_text_gets_its_own_stretch_of_audio(transcripts: Path, tmp_path: Path) -> None:
    manifest = prepare(transcripts, tmp_path / "corpus", 0.75)
    found = read_manifest(manifest)
    assert [(each.text, each.duration) for each in found] == [
        ("first", 1.5),
        ("it's last", 2.5),
        ("whole", 2.0),
    ]
    assert check_manifest(manifest) == []
    firsts = [soundfile.read(each.audio)[0][0] for each in found]
    assert firsts == pytest.approx([-0.5, 3.5 / 6 - 0.5, -0.5], abs=1e-3)
    names = {each.text: each.audio for each in found}
    for each in read_manifest(prepare(transcripts, tmp_path / "corpus", 0.25)):
        assert each.audio == names[each.text]  # also for another share
    assert each.text == "it's last"
    (tmp_path / "corpus").rename(tmp_path / "moved")
    assert check_manifest(tmp_path / "moved" / "manifest.jsonl") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"path": "a.wav"}', r"bad\.jsonl:2: wanted a transcript .* with its segments"),
        ('{"path": null, "segments": []}', r"bad\.jsonl:2: wanted"),
        ('{"path": "a.wav", "segments": [{"start": "x"}]}', r"bad\.jsonl:2: wanted"),
        ("no JSON", r"bad\.jsonl:2: wanted"),
        ('{"path": "none.wav", "segments": []}', r"none of its 0 transcripts"),
    ],
)
def test_a_file_that_holds_no_transcripts(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"path": "a.wav", "segments": []}\n' + line, "utf-8")
    with pytest.raises(UserError, match=said):
        prepare(file, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


def test_a_recording_that_is_gone_loses_nothing(transcripts: Path, tmp_path: Path) -> None:
    kept = prepare(transcripts, tmp_path / "corpus", 1.0).read_text("utf-8")
    (tmp_path / "short.flac").unlink()
    with pytest.raises(UserError, match=r"short\.flac"):
        prepare(transcripts, tmp_path / "corpus", 1.0)
    assert (tmp_path / "corpus" / "manifest.jsonl").read_text("utf-8") == kept
    with pytest.raises(UserError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        prepare(tmp_path / "nowhere.jsonl", tmp_path / "corpus")


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, math.nan])
def test_a_share_that_is_none(transcripts: Path, tmp_path: Path, share: float) -> None:
    with pytest.raises(UserError, match=r"share of .* wanted above 0 and at most 1"):
        prepare(transcripts, tmp_path / "corpus", share)
