"""Weights in 8 and 4 bits: how they are rounded, stored and read."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from asr.errors import UserError
from asr.model_folder import SCALE, read_arrays
from asr.models import rounding
from asr.models.folder import pack
from asr.models.rounding import Rounded, has_four_bits, nibbles, rounded


def matrix(rows=160, columns=224):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(3))


def test_a_group_of_4_bits_has_16_levels_of_its_own():
    value = matrix()
    value[5, :56] *= 1000  # does not affect other groups
    value[6] = 0
    found = rounded(value, 4)
    assert found.scale.shape == (160, 4)  # 224 columns: groups of 56
    assert set(found.whole.unique().tolist()) == set(range(-8, 8))
    steps = found.scale.float().abs().repeat_interleave(56, dim=1)
    off = (found.values() - value).abs()
    # Half a step; a whole one where the number opposite to the largest would be 8.
    assert (off <= torch.where(found.whole == 7, 1.01, 0.501) * steps + 1e-6).all()
    assert (found.values()[6] == 0).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_what_is_rounded_already_stays(bits):
    values = rounded(matrix(), bits).values()
    torch.testing.assert_close(rounded(values, bits).values(), values, rtol=1e-6, atol=0)


def test_4_bits_are_closer_than_half_of_the_levels():
    """The error of 16 levels for groups of 56 normal numbers, by the formula of rounding: Δ²/12."""
    value = matrix(400)
    off = rounded(value, 4).values() - value
    largest = value.view(400, 4, 56).abs().amax(2)
    expected = ((largest / 8) ** 2 / 12).mean()
    assert 0.9 < off.square().mean() / expected < 1.15


@pytest.mark.parametrize(
    ("shape", "has"),
    [((128, 128), True), ((128, 126), False), ((127, 131), False), ((8, 64, 64), False)],
)
def test_only_large_matrices_have_4_bits(shape, has):
    assert has_four_bits(torch.zeros(shape)) == has


def test_a_folder_stores_what_training_computed_with(tmp_path):
    state = {
        "large": matrix(),
        "small": matrix(31, 64),
        "odd": matrix(300, 67),
        "front": matrix(40, 900).view(40, 4, 15, 15),
        "bias": matrix(1, 160)[0],
    }
    file = tmp_path / "weights.safetensors"
    file.write_bytes(pack(state, 4, tmp_path))
    stored, found = load_file(file), read_arrays(file)
    assert stored["large"].dtype == np.uint8 and stored["large"].shape == (160, 112)
    assert stored["large" + SCALE].dtype == np.float16
    assert {stored[name].dtype.name for name in ("small", "odd", "front")} == {"int8"}
    assert stored["bias"].dtype == np.float16
    for name in ("large", "small", "odd", "front"):
        np.testing.assert_array_equal(found[name], rounded(state[name], 4).values().numpy())
    assert set(found) == set(state)


def test_a_byte_holds_the_left_part_in_its_low_half():
    whole = torch.tensor([[-8, 3, 7, 0]], dtype=torch.int8)
    assert nibbles(whole).tolist() == [[0 | 15 << 4, 11 | 8 << 4]]


@pytest.mark.parametrize("shape", [(2,), (2, 3), (3, 2), (2, 0), (2, 2, 1)])
def test_factors_that_do_not_fit_are_refused(tmp_path, shape):
    file = tmp_path / "weights.safetensors"
    arrays = {"a": np.zeros((2, 4), np.uint8), "a" + SCALE: np.ones(shape, np.float16)}
    save_file(arrays, file)
    with pytest.raises(UserError, match=r"damaged.*a\.scale does not fit a"):
        read_arrays(file)
    save_file(arrays | {"a" + SCALE: np.array([[1, 2], [3, 4]], np.float16)}, file)
    np.testing.assert_array_equal(
        read_arrays(file)["a"], np.repeat([[-8, -16], [-24, -32]], 4, axis=1)
    )


def test_weights_that_no_float16_can_scale_are_refused(tmp_path):
    with pytest.raises(UserError, match="is not finite in 4 bits"):
        pack({"a": matrix() * 1e6}, 4, tmp_path)


def test_the_values_are_whole_numbers_times_factors():
    whole = torch.tensor([[1, -2, 3, 4]], dtype=torch.int8)
    assert Rounded(whole, torch.tensor([[2.0, 0.5]])).values().tolist() == [[2, -4, 1.5, 2]]
    assert Rounded(whole, torch.tensor([0.5])).values().tolist() == [[0.5, -1, 1.5, 2]]
    assert rounding.GROUP == 64
