"""The speaking rate from features: as in training, and fast speech is then encoded once."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_model import write_tiny_model

from asr.errors import UserError
from asr.inference import encoding
from asr.inference.loaded import LoadedModel
from asr.inference.pieces import piece_of, slowed
from asr.model_folder import PACE
from asr.runtime.pace import PaceNetwork

RECIPE = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "pace.py"))
MELS = 80


def trained(seed: int = 0):
    torch.manual_seed(seed)
    model = RECIPE["PaceModel"](MELS)
    model.scale *= 1.5
    return model, {name: value.detach() for name, value in model.state_dict().items()}


def test_the_network_counts_what_it_counts_in_training():
    model, state = trained()
    network = PaceNetwork.of({name: value.numpy() for name, value in state.items()})
    features = [torch.randn(frames, MELS) for frames in (1, 4, 5, 203)]
    padded = torch.nn.utils.rnn.pad_sequence(features, batch_first=True)
    with torch.no_grad():
        wanted = 1.5 * model(padded, torch.tensor([len(each) for each in features]))
    found = [network.characters(each.numpy()) for each in features]
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5)
    assert network.characters(np.zeros((0, MELS), np.float32)) == 0


def test_a_folder_may_have_a_network(tmp_path):
    assert PaceNetwork.load(tmp_path, MELS) is None
    _, state = trained()
    save_file(state, tmp_path / PACE)
    assert PaceNetwork.load(tmp_path, MELS) is not None
    with pytest.raises(UserError, match=f"{PACE}.* do not fit 40 filters"):
        PaceNetwork.load(tmp_path, 40)
    del state["density.bias"], state["scale"]
    save_file(state, tmp_path / PACE)
    with pytest.raises(UserError, match=f"{PACE}.* not the weights"):
        PaceNetwork.load(tmp_path, MELS)
    (tmp_path / PACE).write_bytes(b"nothing")
    with pytest.raises(UserError, match=PACE):
        PaceNetwork.load(tmp_path, MELS)


class Counting(PaceNetwork):
    """Counts 30 characters in short recordings and none in longer ones."""

    def characters(self, features):
        return 30.0 if len(features) < 150 else 0.0


@pytest.fixture
def loaded(tmp_path):
    write_tiny_model(tmp_path)
    _, state = trained()
    network = Counting.of({name: value.numpy() for name, value in state.items()})
    return replace(LoadedModel.load(tmp_path, runtime="numpy"), pace=network)


def test_fast_speech_is_slowed_down_and_encoded_once(loaded, monkeypatch):
    random = np.random.default_rng(3)
    pieces = [piece_of(random.standard_normal(size).astype(np.float32)) for size in (16000, 40000)]
    calls = []
    encode = type(loaded.engine).encode
    monkeypatch.setattr(
        type(loaded.engine), "encode", lambda *given: calls.append(1) or encode(*given)
    )
    found = encoding.encode(loaded, pieces, fastest=24.0)
    assert len(calls) == 1
    pace = 24.0 * encoding.seconds_of_speech(pieces[0]) / 30
    assert 0.7 < pace < 1
    wanted = [
        encoding.encode(replace(loaded, pace=None), [each])
        for each in (slowed(pieces[0], pace), pieces[1])
    ]
    for row, alone in enumerate(wanted):
        length = int(alone.lengths[0])
        assert found.lengths[row] == length
        ours = found.memory.values[row, :length]
        np.testing.assert_allclose(ours, alone.memory.values[0], atol=1e-4)
    at_own_speed = encoding.encode(replace(loaded, pace=None), pieces)
    assert found.own_lengths.tolist() == at_own_speed.lengths.tolist()
    for ours, theirs in zip(found.features, at_own_speed.features, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    seconds = loaded.seconds_per_annotation
    np.testing.assert_allclose(found.seconds_per_annotation, [seconds * pace, seconds])
