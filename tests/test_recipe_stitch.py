"""A head put on another public encoder by `recipes/plus/stitch.py`."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from tiny_model import write_tiny_model

from asr.corpora.manifest import Utterance, write_manifest
from asr.errors import UserError
from asr.models.encoders import public
from asr.models.encoders.public import PublicEncoder, open_frames
from asr.models.folder import read_folder
from asr.models.speech import SpeechModel, Waveforms, load_speech_model
from asr.text.vocabulary import Vocabulary

STITCH = runpy.run_path(str(Path(__file__).parents[1] / "recipes" / "plus" / "stitch.py"))
SIZES = {"whisper-base": 512, "moonshine-tiny": 576}
SECOND = 16_000


def encoder_of_a_few_directions(name: str, path: Path | None = None) -> PublicEncoder:
    """Frames of which those of one encoder are an affine map of those of any other."""
    size = SIZES[name]
    directions = np.random.default_rng(size).standard_normal((4, size))

    def encode(samples):
        parts = samples.reshape(-1, 4, 160)
        return (3 * parts.std(2) @ directions + directions[0]).astype(np.float32)

    return PublicEncoder(name, size, "digest", encode)


@pytest.fixture
def audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a manifest of noise whose loudness changes, and fake the encoders."""
    monkeypatch.setattr(public, "load_public", encoder_of_a_few_directions)
    random = np.random.default_rng(0)
    utterances = []
    for index in range(20):
        loudness = np.repeat(random.uniform(0.01, 0.3, 100), 160)
        file = tmp_path / f"{index}.wav"
        soundfile.write(file, loudness * random.standard_normal(SECOND), SECOND)
        utterances.append(Utterance(str(index), file, "", 1.0))
    write_manifest(tmp_path / "manifest.jsonl", utterances)
    return tmp_path / "manifest.jsonl"


def stitch(source: Path, target: Path, audio: Path, monkeypatch: pytest.MonkeyPatch) -> SpeechModel:
    asked = ["stitch.py", str(source), str(target), "--public", "moonshine-tiny"]
    monkeypatch.setattr(sys, "argv", [*asked, "--audio", str(audio)])
    STITCH["main"]()
    return load(target)


def load(path: Path) -> SpeechModel:
    folder = read_folder(path, "speech")
    vocabulary = Vocabulary.from_json(folder.vocabularies["vocabulary"])
    return load_speech_model(folder, len(vocabulary)).eval()


def test_the_head_computes_on_new_frames_what_it_did_on_the_old_ones(
    audio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_tiny_model(tmp_path / "model", kind="frozen")
    before = load(source)
    after = stitch(source, tmp_path / "stitched", audio, monkeypatch)
    assert "explained of 2 recordings: 1.000" in capsys.readouterr().out
    assert read_folder(tmp_path / "stitched").model["encoder"]["public"] == "moonshine-tiny"
    samples, _ = soundfile.read(tmp_path / "9.wav", dtype="float32")
    batch = Waveforms(torch.from_numpy(samples)[None], torch.tensor([SECOND]))
    old, new = (model.encode(batch).memory.values for model in (before, after))
    assert old.std() > 0.1
    torch.testing.assert_close(new, old, atol=0.05, rtol=0)
    frames = np.concatenate(
        [open_frames("moonshine-tiny")(samples_of(tmp_path / f"{each}.wav")) for each in range(9)]
    )
    np.testing.assert_allclose(after.normalizer.mean.numpy(), frames.mean(0), atol=0.05)
    np.testing.assert_allclose(after.normalizer.std.numpy(), frames.std(0), atol=0.1)


def samples_of(file: Path) -> np.ndarray:
    samples, _ = soundfile.read(file, dtype="float32")
    return samples


def test_a_model_without_a_public_encoder_is_refused(
    audio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_tiny_model(tmp_path / "model")
    with pytest.raises(UserError, match="no head on a public encoder"):
        stitch(source, tmp_path / "stitched", audio, monkeypatch)
    assert not (tmp_path / "stitched").exists()
