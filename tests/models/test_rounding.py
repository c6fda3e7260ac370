"""Weights in 8, 4 and 3 bits: how they are rounded, stored and read."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from asr.errors import UserError
from asr.models import rounding
from asr.models.folder import pack
from asr.models.rounding import Rounded, is_grouped, planes, rounded
from asr.weights import SCALE, read_arrays


def matrix(rows=160, columns=224):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("bits", [4, 3])
def test_a_group_has_levels_of_its_own(bits):
    value = matrix()
    value[5, :112] *= 1000  # does not affect other groups
    value[6] = 0
    found = rounded(value, bits)
    assert found.scale.shape == (160, 2)  # 224 columns: groups of 112
    half = 2 ** (bits - 1)
    assert set(found.whole.unique().tolist()) == set(range(-half, half))
    steps = found.scale.float().abs().repeat_interleave(112, dim=1)
    inside = (found.whole > -half) & (found.whole < half - 1)
    off = (found.values() - value).abs()
    assert (off <= 0.501 * steps + 1e-6)[inside].all()
    assert (found.values()[6] == 0).all()


def test_the_scale_with_the_least_error_is_taken():
    """One outlier among small numbers is clipped less than they would lose by a coarse scale."""
    value = matrix(160, 128)
    for bits in (4, 3):
        found = rounded(value, bits)
        error = (found.values() - value).square().sum(1)
        largest = value.gather(1, value.abs().argmax(1, keepdim=True))
        lowest = -(2 ** (bits - 1))
        errors = []
        for share in rounding.SHARES:
            scale = (share * largest / lowest).half().float()
            whole = (value / scale).round().clamp(lowest, -lowest - 1)
            errors.append((whole * scale - value).square().sum(1))
        torch.testing.assert_close(error, torch.stack(errors).amin(0))
        assert all((each > error + 1e-3).any() for each in errors)  # none is always the best


@pytest.mark.parametrize("bits", [8, 4, 3])
def test_what_is_rounded_already_stays(bits):
    values = rounded(matrix(), bits).values()
    torch.testing.assert_close(rounded(values, bits).values(), values, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("shape", "has"),
    [((128, 128), True), ((128, 132), False), ((127, 128), False), ((8, 64, 64), False)],
)
def test_only_large_matrices_have_few_bits(shape, has):
    assert is_grouped(torch.zeros(shape)) == has


@pytest.mark.parametrize("bits", [4, 3])
def test_a_folder_stores_what_training_computed_with(tmp_path, bits):
    state = {
        "large": matrix(),
        "small": matrix(31, 64),
        "odd": matrix(300, 67),
        "front": matrix(40, 900).view(40, 4, 15, 15),
        "bias": matrix(1, 160)[0],
    }
    file = tmp_path / "weights.safetensors"
    file.write_bytes(pack(state, bits, tmp_path))
    stored, found = load_file(file), read_arrays(file)
    assert stored["large"].dtype == np.uint8 and stored["large"].shape == (bits, 160, 28)
    assert stored["large" + SCALE].dtype == np.float16
    assert {stored[name].dtype.name for name in ("small", "odd", "front")} == {"int8"}
    assert stored["bias"].dtype == np.float16
    for name in ("large", "small", "odd", "front"):
        np.testing.assert_array_equal(found[name], rounded(state[name], bits).values().numpy())
    assert set(found) == set(state)


@pytest.mark.parametrize("bits", [16, 8, 4, 3])
def test_a_transposed_matrix_has_the_same_numbers(tmp_path, bits):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(pack({"a": matrix(), "b": matrix(1, 160)[0]}, bits, tmp_path))
    found, second = read_arrays(file), [slice(80, 160), slice(40, 60)]
    rows = np.r_[80:160, 40:60]
    for name in ("a", "b"):
        assert found.shapes[name] == found[name].shape
        whole, some = found.transposed(name), found.packed(name, second).unpacked()
        np.testing.assert_array_equal(whole, found[name].T.astype(np.float32))
        np.testing.assert_array_equal(some, found[name][rows].T.astype(np.float32))
        assert whole.dtype == some.dtype == np.float32
        assert whole.flags.c_contiguous and some.flags.c_contiguous
        some[:] = 0  # a copy
        assert found[name].any()
    for name in ("c", "a" + SCALE):
        with pytest.raises(KeyError):
            found.transposed(name)


def test_each_plane_has_a_bit_of_every_number():
    """Numbers plus 4; the first column is the highest bit of a byte."""
    whole = torch.tensor([[-4, -3, -2, -1, 0, 1, 2, 3]], dtype=torch.int8)
    lowest, middle, highest = planes(whole, 3).tolist()
    assert (lowest, middle, highest) == ([[0b01010101]], [[0b00110011]], [[0b00001111]])


@pytest.mark.parametrize("shape", [(2,), (2, 3), (3, 2), (2, 0), (2, 2, 1)])
def test_factors_that_do_not_fit_are_refused(tmp_path, shape):
    file = tmp_path / "weights.safetensors"
    arrays = {"a": np.zeros((3, 2, 1), np.uint8), "a" + SCALE: np.ones(shape, np.float16)}
    save_file(arrays, file)
    with pytest.raises(UserError, match=r"damaged.*a\.scale does not fit a"):
        read_arrays(file)
    save_file(arrays | {"a" + SCALE: np.array([[1, 2], [3, 4]], np.float16)}, file)
    np.testing.assert_array_equal(
        read_arrays(file)["a"], np.repeat([[-4, -8], [-12, -16]], 4, axis=1)
    )


@pytest.mark.parametrize("shape", [(3, 2), (8, 2, 1), (0, 2, 1), (3, 2, 1, 1)])
def test_planes_of_another_form_are_refused(tmp_path, shape):
    file = tmp_path / "weights.safetensors"
    save_file({"a": np.zeros(shape, np.uint8), "a" + SCALE: np.ones((2, 2), np.float16)}, file)
    with pytest.raises(UserError, match=r"damaged.*a\.scale does not fit a"):
        read_arrays(file)


def test_weights_that_no_float16_can_scale_are_refused(tmp_path):
    with pytest.raises(UserError, match="is not finite in 4 bits"):
        pack({"a": matrix() * 1e6}, 4, tmp_path)


def test_the_values_are_whole_numbers_times_factors():
    whole = torch.tensor([[1, -2, 3, 4]], dtype=torch.int8)
    assert Rounded(whole, torch.tensor([[2.0, 0.5]])).values().tolist() == [[2, -4, 1.5, 2]]
    assert Rounded(whole, torch.tensor([0.5])).values().tolist() == [[0.5, -1, 1.5, 2]]
