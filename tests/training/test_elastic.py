"""`asr train` under torchrun: one process is stopped, another one killed, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tones import write_tones

ROOT = Path(__file__).parents[2]
ELASTIC = Path(__file__).parents[1] / "elastic.py"
OPTIONS = [
    "model.encoder.state_size=8",
    "model.decoder.state_size=12",
    "model.encoder.dropout=0.2",
    "batches.size=6",
    "training.steps=8",
    "training.validate_every=4",
    "training.log_every=2",
    "training.keep=9",
]


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    return write_tones(tmp_path_factory.mktemp("tones"), utterances=30)


def torchrun(tones, folder, *program, restarts=0):
    """Train with two processes; return the finished process."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", str(restarts), *program, "train"]
    command += [str(ROOT / "recipes" / "tones" / "tones.toml"), str(folder), "--data", str(tones)]
    command += [part for each in OPTIONS for part in ("--set", each)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def weights(folder):
    return load_file(folder / "models" / "step-00000008" / "model.safetensors")


def test_a_stopped_and_a_killed_process_change_nothing(tones, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = torchrun(tones, whole, "-m", "asr")
    assert done.returncode == 0 and done.stdout == f"{whole / 'model'}\n", done.stderr

    # The second process alone gets the signal; both stop, and the first writes the checkpoint.
    stopped = torchrun(tones, parts, str(ELASTIC), "SIGTERM", "2", "1")
    assert stopped.returncode == 0 and stopped.stdout == "", stopped.stderr
    assert "stopped by SIGTERM at step 3" in stopped.stderr
    assert [each.name for each in (parts / "checkpoints").iterdir()] == ["step-00000003.pt"]

    killed = torchrun(tones, parts, str(ELASTIC), "SIGKILL", "6", "1", restarts=1)
    assert killed.returncode == 0 and killed.stdout == f"{parts / 'model'}\n", killed.stderr
    assert "resuming at step 3" in killed.stderr and "resuming at step 4" in killed.stderr
    assert "process 0 lost the connection" in killed.stderr
    one, other = weights(whole), weights(parts)
    assert all(torch.equal(one[name], other[name]) for name in one)
