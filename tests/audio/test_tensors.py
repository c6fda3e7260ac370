"""Tensors of torch are read as arrays are."""

import numpy as np
import pytest
import torch

from asr.audio.read import read
from asr.errors import UserError

SAMPLES = np.linspace(-0.5, 0.5, 1600, dtype=np.float32)


def test_a_tensor_equals_its_array() -> None:
    for tensor in (torch.tensor(SAMPLES), torch.tensor(SAMPLES).double().requires_grad_()):
        np.testing.assert_array_equal(read(tensor, 16000).samples, SAMPLES)
    with pytest.raises(UserError, match="without its sample rate"):
        read(torch.tensor(SAMPLES))


def test_channels_come_first_as_in_torchaudio() -> None:
    stereo = np.stack([SAMPLES, -SAMPLES, SAMPLES])
    found = read(torch.tensor(stereo), 16000).samples
    np.testing.assert_allclose(found, SAMPLES / 3, atol=1e-7)
    np.testing.assert_array_equal(found, read(stereo.T, 16000).samples)


def test_integers_and_half_precision() -> None:
    integers = torch.tensor(np.round(SAMPLES * 32768).astype(np.int16))
    np.testing.assert_allclose(read(integers, 16000).samples, SAMPLES, atol=1e-4)
    half = torch.tensor(SAMPLES).bfloat16()
    np.testing.assert_allclose(read(half, 16000).samples, SAMPLES, atol=2e-3)
