"""Every kind × normaliser × window, with one and several heads, satisfies the contract.

The inputs of the checks have padding and silence. With several heads either the normaliser or the
window varies, since heads pass both on unchanged. The lists come from the tables of the package,
so everything registered there is tested.
"""

import inspect

import pytest
import torch
from attention_contract import (
    check_decoder,
    check_distribution,
    check_gradients,
    check_low_precision,
    check_neighbours,
    make,
)
from torch import nn

from asr.attention import KINDS, Window, build_attention, contract
from asr.attention.build import parameters_of
from asr.attention.contract import Attention, Memory, attention_class
from asr.attention.energies import EnergyAttention
from asr.attention.normalizers import NORMALIZERS, SOFTMAX

WINDOWS = [
    None,
    Window(2, 3),
    Window(2, 3, soft=True, centre="expectation"),
    Window(1, 1, stride=4),
]
WITH_ENERGIES = [
    kind
    for kind in sorted(KINDS)
    if "normalizer" in inspect.signature(attention_class(kind)).parameters
]
ALONE = [(kind, 1, None) for kind in sorted(KINDS)]
HEADS = [(kind, 4, 2) for kind in WITH_ENERGIES]
PLAIN = [(kind, "softmax", None, heads, shared) for kind, heads, shared in ALONE + HEADS]
ALL = [
    (kind, normalizer, window, heads, shared)
    for kind, heads, shared in ALONE + HEADS
    for normalizer in (sorted(NORMALIZERS) if kind in WITH_ENERGIES else ["softmax"])
    for window in (WINDOWS if kind in WITH_ENERGIES else [None])
    if heads == 1 or normalizer == "softmax" or window is None
]
# The fused loop of teacher forcing supports additive attention with some of its options.
STEPPED = PLAIN + [case for case in ALL if case[0] == "additive" and case not in PLAIN]


def named(case):
    kind, normalizer, window, heads, _ = case
    where = "" if window is None else f" window {WINDOWS.index(window)}"
    return f"{kind} {heads} {normalizer}{where}"


plain = pytest.mark.parametrize("case", PLAIN, ids=named)
every = pytest.mark.parametrize("case", ALL, ids=named)


@every
def test_weights_are_a_distribution_over_what_may_be_attended_to(case):
    check_distribution(make(*case))


@every
def test_neighbours_in_batch_and_beam_change_nothing(case):
    check_neighbours(make(*case))


@plain
def test_gradients_are_right_and_all_parameters_get_one(case):
    check_gradients(make(*case))


@pytest.mark.parametrize("case", [case for case in ALL if case[2] is None], ids=named)
def test_in_sixteen_bits_the_weights_are_still_a_distribution(case):
    check_low_precision(make(*case))


@pytest.mark.parametrize("case", STEPPED, ids=named)
def test_in_the_decoder_forward_equals_unrolled_steps(case):
    check_decoder(make(*case))


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="additive"):
        attention_class("subtractive")


# The checks themselves


class Leaky(EnergyAttention):
    """Depends on its neighbours once its parameter, which begins at 0, is trained."""

    def __init__(self, query_size, annotation_size, normalizer=SOFTMAX, window=None):
        super().__init__(normalizer, window)
        self.query = nn.Linear(query_size, annotation_size)
        self.share = nn.Parameter(torch.zeros(()))

    def prepare(self, annotations):
        keys = annotations.values + self.share * annotations.values.mean(0)
        return Memory(annotations.values, annotations.mask, keys)

    def energies(self, query, memory, previous):
        return self.query(query) @ memory.keys.transpose(1, 2)


class OwnHeads(Attention):
    """Has two heads of its own."""

    context_is_weighted_mean = False

    def __init__(self, query_size, annotation_size, attention_size=128):
        super().__init__()
        self.inner = build_attention("additive", query_size, annotation_size, attention_size, 2)

    def prepare(self, annotations):
        return self.inner.prepare(annotations)

    def forward(self, query, memory, previous):
        return self.inner(query, memory, previous)


class Reserved(OwnHeads):
    def __init__(self, query_size, annotation_size, attention_size=128, heads=2):
        super().__init__(query_size, annotation_size, attention_size)


@pytest.fixture
def kinds(monkeypatch):
    made = {each.__name__: f"{__name__}:{each.__name__}" for each in (Leaky, OwnHeads, Reserved)}
    monkeypatch.setattr(contract, "KINDS", {**KINDS, **made})


@pytest.mark.usefixtures("kinds")
def test_a_dependence_on_neighbours_that_begins_at_zero_is_found():
    with pytest.raises(AssertionError):
        check_neighbours(make("Leaky"))


@pytest.mark.usefixtures("kinds")
def test_a_mechanism_with_heads_of_its_own_passes():
    for check in (check_distribution, check_neighbours, check_gradients, check_decoder):
        check(make("OwnHeads"))


@pytest.mark.usefixtures("kinds")
def test_an_argument_that_would_be_ignored_is_refused():
    with pytest.raises(ValueError, match="Reserved attention has an argument 'heads'"):
        make("Reserved")
    with pytest.raises(ValueError, match="give it another name"):
        parameters_of("Reserved")
