"""Overfitting on two recordings, which checks the gradients of the whole model."""

import json
from pathlib import Path

from asr.training.run import run

ROOT = Path(__file__).parents[2]
SPOKEN = ("672-122797-0000", "5683-32866-0027")

CONFIG = """
[data]
dev = "two.jsonl"
train = [{ manifest = "two.jsonl", times = 5.0 }]
[model.encoder]
channels = 8
state_size = 64
layers = 2
dropout = 0.0
[model.attention]
size = 64
location_features = 4
[model.decoder]
state_size = 96
embedding_size = 16
readout_size = 48
dropout = 0.0
[batches]
size = 12.0
[augment]
speeds = [1.0]
time_masks = 0
frequency_masks = 0
[loss]
label_smoothing = 0.0
diagonality = 1.0
diagonality_steps = 100
[training]
steps = 150
rate = 4e-3
warmup_steps = 20
average = 0.9
validate_every = 150
keep = 1
"""


def test_two_real_recordings_are_learnt_by_heart(tmp_path):
    speech = ROOT / "data" / "speech"
    lines = [json.loads(line) for line in (speech / "manifest.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["id"] in SPOKEN]
    assert len(kept) == len(SPOKEN)
    for line in kept:
        line["audio"] = str(speech / line["audio"])
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    (tmp_path / "two.toml").write_text(CONFIG)
    allowed = [f"data.audio_in={speech}"]
    run(tmp_path / "two.toml", tmp_path / "run", data=None, overrides=allowed)
    records = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    last = [record for record in records if record["kind"] == "dev"][-1]
    assert last["cer"] < 5
