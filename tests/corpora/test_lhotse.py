"""Cuts of lhotse: their supervisions stand in the manifest, whole or as parts of recordings."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr import cli
from asr.corpora import read_manifest
from asr.corpora.entries import Entry
from asr.corpora.lhotse import read_lhotse
from asr.errors import UserError

lhotse = pytest.importorskip("lhotse")


def recording(path: Path, seconds: float = 2.0, channels: int = 1) -> "lhotse.Recording":
    samples = np.linspace(-0.5, 0.5, round(seconds * 16_000), dtype=np.float32)
    soundfile.write(path, np.stack([samples] * channels, 1), 16_000)
    return lhotse.Recording.from_file(path)


def cut(of: "lhotse.Recording", begin: float = 0.0, **supervision: object) -> "lhotse.MonoCut":
    said = {"id": "u", "recording_id": of.id, "start": 0.0, "duration": of.duration, "text": "hi"}
    supervisions = [lhotse.SupervisionSegment(**said | supervision)]
    length = of.duration - begin
    return lhotse.MonoCut(f"cut of {of.id}", begin, length, 0, supervisions, recording=of)


def write(folder: Path, *cuts: object, name: str = "cuts.jsonl.gz") -> Path:
    lhotse.CutSet.from_cuts(cuts).to_file(folder / name)
    return folder / name


@pytest.mark.parametrize("name", ["cuts.jsonl", "cuts.jsonl.gz"])
def test_supervisions_are_whole_recordings_or_parts_of_them(tmp_path: Path, name: str) -> None:
    one, two = recording(tmp_path / "one.wav"), recording(tmp_path / "two.wav", 5)
    cuts = write(
        tmp_path,
        cut(one, id="a", speaker="ann", gender="F", duration=1.995),
        cut(two, 1.0, id="b", start=0.5, duration=2.0, text=None),
        name=name,
    )
    assert read_lhotse(cuts) == [
        Entry(tmp_path / "one.wav", "hi", "a", None, "ann", "F", line=1),
        Entry(tmp_path / "two.wav", "", "b", start=1.5, end=3.5, line=2),
    ]


def test_from_cuts_to_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = recording(tmp_path / "long.wav", 9)
    said = [cut(whole, id=f"u{at}", start=3.0 * at, duration=3.0) for at in range(3)]
    for at, each in enumerate(said):
        each.id = f"c{at}"
    cuts = write(tmp_path, *said)
    manifest = tmp_path / "my.jsonl"
    assert cli.main(["prepare", "lhotse", str(cuts), str(manifest)]) == 0
    assert "3 utterances" in capsys.readouterr().out
    found = read_manifest(manifest)
    assert [(each.id, each.text, each.duration) for each in found] == [
        (f"u{at}", "hi", 3.0) for at in range(3)
    ]
    middle, _ = soundfile.read(found[1].audio)
    assert abs(middle.mean()) < 1e-3 < abs(soundfile.read(found[0].audio)[0].mean())


def test_what_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    mono, stereo = recording(tmp_path / "a.wav"), recording(tmp_path / "s.wav", channels=2)
    for each, wanted in (
        (cut(mono.perturb_speed(1.1)), "cuts.jsonl.gz:1: the recording 'a_sp1.1' is not one"),
        (cut(stereo), "cuts.jsonl.gz:1: 'u' is one of the 2 channels of 's'"),
        (cut(mono).pad(9.0), "cuts.jsonl.gz:1: got a MixedCut, wanted a cut of one recording"),
    ):
        with pytest.raises(UserError, match=wanted):
            read_lhotse(write(tmp_path, each))
    lhotse.RecordingSet.from_recordings([mono]).to_file(tmp_path / "recordings.jsonl")
    with pytest.raises(UserError, match="got a Recording, wanted a cut"):
        read_lhotse(tmp_path / "recordings.jsonl")
    with pytest.raises(UserError, match=r"none.jsonl:1: No such file"):
        read_lhotse(tmp_path / "none.jsonl")
    good = json.loads(write(tmp_path, cut(mono), name="good.jsonl").read_text())
    for line in ("hello", '{"id": 3}', "[]", json.dumps(good | {"supervisions": 3})):
        (tmp_path / "bad.jsonl").write_text(f"{json.dumps(good)}\n{line}\n")
        with pytest.raises(UserError, match=r"bad.jsonl:2: wanted the cuts of lhotse"):
            read_lhotse(tmp_path / "bad.jsonl")


def test_without_lhotse_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lhotse", None)
    with pytest.raises(UserError, match=r"missing: pip install -c .*\[lhotse\]"):
        read_lhotse(tmp_path / "cuts.jsonl")
