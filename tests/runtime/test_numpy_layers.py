"""The recurrent layer in NumPy is torch's, in few and many rows, in one block and several."""

import numpy as np
import pytest
import torch

from asr.models.encoders.recurrent import Bidirectional
from asr.models.encoders.recurrent import reversal as torch_reversal
from asr.models.folder import pack
from asr.runtime.numpy_runtime import layers
from asr.runtime.numpy_runtime.layers import BiLSTM, reversal, within
from asr.weights import StoredWeights, read_arrays


@pytest.mark.parametrize("rows_at_once", [1, 7, 512])
@pytest.mark.parametrize("batch", [1, 2, layers.FEW_ROWS, layers.FEW_ROWS + 1, 9])
def test_both_directions_are_those_of_torch(batch, rows_at_once, monkeypatch):
    monkeypatch.setattr(layers, "ROWS_AT_ONCE", rows_at_once)
    with torch.random.fork_rng(), torch.inference_mode():
        torch.manual_seed(batch)
        layer = Bidirectional(5, 4)
        inputs, lengths = torch.randn(batch, 11, 5), torch.randint(1, 12, (batch,))
        wanted = layer(inputs, torch_reversal(lengths, 11)).numpy()
    named = {f"layer.{name}": value.numpy() for name, value in layer.state_dict().items()}
    order = reversal(lengths.numpy(), 11)
    found = BiLSTM.of(StoredWeights(named), "layer")(inputs.numpy(), order)
    inside = within(lengths.numpy(), 11)
    np.testing.assert_allclose(found[inside], wanted[inside], atol=1e-6)


@pytest.mark.parametrize(("bits", "kept"), [(16, "float32"), (8, "int8"), (3, "int8")])
def test_packed_inputs_give_the_same_states(tmp_path, bits, kept):
    with torch.random.fork_rng():
        torch.manual_seed(8)
        layer = Bidirectional(128, 64)
    named = {f"layer.{name}": value for name, value in layer.state_dict().items()}
    file = tmp_path / "weights.safetensors"
    file.write_bytes(pack(named, bits, tmp_path))
    stored = read_arrays(file)
    packed, unpacked = (BiLSTM.of(each, "layer") for each in (stored, StoredWeights({**stored})))
    assert {each.numbers.dtype.name for each in packed.inputs} == {kept}
    assert {each.numbers.dtype.name for each in unpacked.inputs} == {"float32"}
    inputs = np.random.default_rng(9).standard_normal((2, 9, 128), np.float32)
    order = reversal(np.array([9, 6]), 9)
    np.testing.assert_array_equal(packed(inputs, order), unpacked(inputs, order))
