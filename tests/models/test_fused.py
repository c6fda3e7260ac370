"""The fused loop equals the decoder's steps: outputs and gradients, for every shape and option."""

from __future__ import annotations

from typing import NamedTuple
from unittest import mock

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from masks import KINDS, make_mask
from torch import Tensor

from asr.attention import AdditiveAttention, Annotations, Window
from asr.models import decoder as decoder_module
from asr.models.decoder import Decoder
from asr.models.fused import attention as fused_attention
from asr.models.fused.spans import Spans
from asr.models.settings import DecoderSettings

VOCABULARY, ANNOTATION, EMBEDDING = 7, 4, 3


class Case(NamedTuple):
    """What a comparison is made for; mask: "all", "padded", "gaps" or "nothing"."""

    batch: int = 2
    length: int = 30
    steps: int = 5
    state: int = 4
    attention: int = 5
    cell: str = "gru"
    attend: str = "before"
    features: int = 0
    width: int = 3
    window: Window | None = None
    mask: str = "padded"
    seed: int = 0


WINDOWS = [
    None,
    Window(2, 3),
    Window(1, 1, centre="expectation"),
    Window(3, 1, soft=True),
    Window(1, 2, stride=3),
]
CASES = st.builds(
    Case,
    batch=st.integers(1, 3),
    length=st.integers(1, 24),
    steps=st.integers(1, 6),
    state=st.integers(1, 5),
    attention=st.integers(1, 6),
    cell=st.sampled_from(["gru", "lstm", "tanh"]),
    attend=st.sampled_from(["before", "between"]),
    features=st.integers(0, 4),
    width=st.sampled_from([1, 3, 7]),
    window=st.sampled_from(WINDOWS),
    mask=st.sampled_from(KINDS),
    seed=st.integers(0, 100),
)
GATHERED = Case(features=2, window=Window(2, 3))


def build(case: Case, dtype: torch.dtype = torch.float64) -> Decoder:
    torch.manual_seed(case.seed)
    attention = AdditiveAttention(
        case.state, ANNOTATION, case.attention, case.features, case.width, window=case.window
    )
    options = DecoderSettings(
        EMBEDDING, case.state, 3, cell=case.cell, attend=case.attend, initial="mean", dropout=0.0
    )
    return Decoder(attention, VOCABULARY, ANNOTATION, options).to(dtype)


class Inputs(NamedTuple):
    values: Tensor
    mask: Tensor
    tokens: Tensor
    towards: tuple[Tensor, Tensor]


def make_inputs(case: Case, dtype: torch.dtype = torch.float64) -> Inputs:
    values = torch.randn(case.batch, case.length, ANNOTATION, dtype=dtype, requires_grad=True)
    tokens = torch.randint(VOCABULARY, (case.batch, case.steps))
    logits = torch.randn(case.batch, case.steps, VOCABULARY, dtype=dtype)
    weights = torch.randn(case.batch, case.steps, case.length, dtype=dtype)
    return Inputs(values, make_mask(case.mask, case.batch, case.length), tokens, (logits, weights))


def results(decoder: Decoder, inputs: Inputs, fused: bool) -> list[Tensor]:
    """Return logits, weights, and the gradients of annotations and parameters."""
    with mock.patch.object(decoder_module, "can_unroll", lambda attention: fused):
        annotations = Annotations(inputs.values, inputs.mask)
        output = decoder(inputs.tokens, decoder.prepare(annotations))
    loss = (output.logits * inputs.towards[0]).sum() + (output.weights * inputs.towards[1]).sum()
    gradients = torch.autograd.grad(loss, [inputs.values, *decoder.parameters()])
    return [output.logits.detach(), output.weights.detach(), *gradients]


def compare(decoder: Decoder, inputs: Inputs, tolerance: float) -> None:
    """Check that fused and plain results agree, relative to the largest number of each tensor."""
    pairs = zip(results(decoder, inputs, True), results(decoder, inputs, False), strict=True)
    for found, wanted in pairs:
        scale = max(1.0, float(wanted.abs().max()))
        torch.testing.assert_close(found, wanted, atol=tolerance * scale, rtol=0)


@settings(max_examples=60, deadline=None)
@given(CASES)
@example(Case(length=1, window=Window(1, 1)))
@example(Case(length=1, features=2))
@example(GATHERED)
@example(GATHERED._replace(cell="lstm", attend="between", mask="nothing"))
@example(GATHERED._replace(mask="gaps"))
@example(Case(features=2, width=7, mask="nothing"))
def test_the_loop_is_the_steps_in_float64(case: Case) -> None:
    compare(build(case), make_inputs(case), 1e-10)


@settings(max_examples=20, deadline=None)
@given(CASES)
@example(GATHERED)
def test_the_loop_is_the_steps_in_float32(case: Case) -> None:
    compare(build(case, torch.float32), make_inputs(case, torch.float32), 1e-5)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("case", [Case(length=4), Case(length=14, features=2, window=Window(1, 2))])
def test_gradients_are_those_of_finite_differences(case: Case, cell: str) -> None:
    case = case._replace(steps=3, cell=cell)
    decoder, inputs = build(case), make_inputs(case)

    def outputs(values: Tensor) -> tuple[Tensor, Tensor]:
        output = decoder(inputs.tokens, decoder.prepare(Annotations(values, inputs.mask)))
        return output.logits, output.weights

    assert torch.autograd.gradcheck(outputs, (inputs.values,))


def attend_to(decoder: Decoder, place: float) -> None:
    """Let the energies rise towards an end: first annotation 0, last 1."""
    with torch.no_grad():
        decoder.attention.key.weight.zero_()
        decoder.attention.key.weight[:, 0] = 1.0 if place else -1.0
        decoder.attention.energy.fill_(20.0)


@pytest.mark.parametrize("place", [0, 1])
def test_windows_at_both_ends(place: int) -> None:
    case = GATHERED._replace(mask="all", steps=12)
    decoder, inputs = build(case), make_inputs(case)
    with torch.no_grad():
        inputs.values[:, :, 0] = torch.linspace(-1, 1, case.length)
    attend_to(decoder, place)
    weights = results(decoder, inputs, True)[1]
    end = weights[:, -1, -3:] if place else weights[:, -1, :3]
    assert end.sum() > 0.5 * case.batch
    compare(decoder, inputs, 1e-10)


def test_nothing_outside_the_window_is_read() -> None:
    case = GATHERED._replace(length=60, steps=4, mask="all")
    decoder, inputs = build(case), make_inputs(case)
    inputs = inputs._replace(values=inputs.values.detach().clone())
    memory = decoder.prepare(Annotations(inputs.values, inputs.mask))
    state = decoder.start(memory)
    memory.values[:, 30:] = torch.nan  # four windows with a reach of 3 end before
    memory.keys[:, 30:] = torch.nan
    with mock.patch.object(decoder, "start", lambda memory: state):
        assert decoder(inputs.tokens, memory).logits.isfinite().all()


def test_only_a_hard_window_without_a_stride_is_gathered() -> None:
    mask = torch.ones(1, 40, dtype=torch.bool)
    assert [Spans(mask, each).gathers for each in WINDOWS] == [False, True, True, False, False]
    assert not Spans(mask, Window(10, 10)).gathers  # as cheap over all


def test_a_window_without_an_allowed_position_is_over_all_in_that_step() -> None:
    mask = torch.ones(2, 40, dtype=torch.bool)
    mask[0, :35] = False
    spans = Spans(mask, Window(2, 2))
    assert spans.choose(torch.zeros(2, 40)).positions is None
    mask[0] = False  # nothing at all: no other span would help
    assert Spans(mask, Window(2, 2)).choose(torch.zeros(2, 40)).positions is not None


@pytest.mark.parametrize("which", ["keys", "queries", "both"])
@pytest.mark.parametrize("share", [0.9, 1.1, 4.0])
def test_keys_and_queries_at_the_limit_of_their_powers(which: str, share: float) -> None:
    """Below the limit by powers, above it by sums: both are right where e^{2k} is extreme."""
    case = Case(length=12, mask="all")
    decoder, inputs = build(case, torch.float32), make_inputs(case, torch.float32)
    limit = share * fused_attention.LIMIT / fused_attention.SCALE
    with torch.no_grad():
        attention = decoder.attention
        memory = decoder.prepare(Annotations(inputs.values, inputs.mask))
        if which != "queries":
            attention.key.weight.mul_(limit / memory.keys.abs().max())
            attention.key.bias.mul_(limit / memory.keys.abs().max())
        if which != "keys":
            attention.query.weight.mul_(limit / attention.query.weight.abs().sum(1).max())
        keys = decoder.prepare(Annotations(inputs.values, inputs.mask)).keys
        start = decoder.start(memory).hidden[:, 0]
    scaled = keys * fused_attention.SCALE
    bounded = fused_attention._are_bounded(scaled, start, attention.query.weight)
    assert bounded == (share < 1)
    compare(decoder, inputs, 1e-5)
