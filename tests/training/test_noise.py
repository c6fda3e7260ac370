"""Recordings without speech: which are trained on, which are mixed in, and what is refused."""

import json

import numpy as np
import pytest
import soundfile
from test_run import CONFIG, TINY
from tones import write_tones

from asr.errors import UserError
from asr.training.config import load_config
from asr.training.run import run
from asr.training.tasks.speech_data import SpeechData

NOISY = ["data.noise=noise.jsonl", "augment.noise_share=0.5"]


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    folder = write_tones(tmp_path_factory.mktemp("tones"), utterances=12)
    hum = 0.1 * np.random.default_rng(0).standard_normal(16_000 * 30).astype("f4")
    soundfile.write(folder / "long.flac", hum, 16_000)
    soundfile.write(folder / "short.flac", hum[:16_000], 16_000)
    soundfile.write(folder / "empty.flac", hum[:8_000], 16_000)
    silence = json.dumps({"audio": "empty.flac", "text": ""}) + "\n"
    (folder / "train.jsonl").write_text((folder / "train.jsonl").read_text() + silence)
    return folder


def write_noise(folder, *names, label=""):
    lines = [json.dumps({"audio": name, "label": label}) for name in names]
    (folder / "noise.jsonl").write_text("".join(f"{line}\n" for line in lines))


def data_of(tones, *options):
    return SpeechData(load_config(CONFIG, [*NOISY, *options]), tones, CONFIG.parent)


def test_noise_that_is_too_long_is_mixed_in_but_not_trained_on(tones, capsys):
    write_noise(tones, "long.flac", "short.flac")
    data = data_of(tones)
    assert {each.name for each in data.noise} == {"long.flac", "short.flac"}  # and no utterance
    trained = {each.audio.name for each in data.examples}
    assert {"short.flac", "empty.flac"} < trained and "long.flac" not in trained
    told = capsys.readouterr().err
    assert "1 utterance above 20.0 s left out of training, such as " in told
    seconds = sum(each.duration for each in data.examples if each.audio.name != "short.flac")
    assert f"{len(data.examples)} utterances to train on, {seconds:.0f} s" in told


def test_rooms_alone_are_no_noise(tones):
    write_noise(tones, "short.flac", label="room-impulse-response")
    with pytest.raises(UserError, match=r"augment.noise_share = 0.5 wants recordings"):
        data_of(tones)
    assert not data_of(tones, "augment.noise_share=0.0").noise


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["short.flac", "lost.flac"], r"noise.jsonl: 1 problem.*\n.*noise.jsonl:2: no such audio"),
        (["short.flac", "short.flac"], r"noise.jsonl:2: id 'short' is already used in line 1"),
        ([], "noise.jsonl: got an empty manifest"),
    ],
)
def test_noise_is_checked_before_a_run(tones, tmp_path, names, message):
    lines = [json.dumps({"audio": name, "duration": 1.0}) + "\n" for name in names]
    (tones / "noise.jsonl").write_text("".join(lines))
    with pytest.raises(UserError, match=message):
        run(CONFIG, tmp_path / "run", tones, [*TINY, *NOISY, "training.steps=4"])


def test_manifests_that_all_end_are_refused():
    train = 'data.train=[{manifest="a.jsonl", epochs=2}, {manifest="b.jsonl", epochs=3}]'
    with pytest.raises(UserError, match=r"data.train: all manifests have `epochs`, .* after 3"):
        load_config(CONFIG, [train])
