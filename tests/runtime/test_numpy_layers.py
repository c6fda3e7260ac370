"""The recurrent layer in NumPy is torch's, in few and many rows, in one block and several."""

import numpy as np
import pytest
import torch

from asr.model_folder import StoredWeights
from asr.models.encoders.recurrent import Bidirectional
from asr.models.encoders.recurrent import reversal as torch_reversal
from asr.runtime.numpy_runtime import layers
from asr.runtime.numpy_runtime.layers import BiLSTM, reversal, within


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
