"""The Triton kernel in Triton's interpreter equals the plain path: outputs and all gradients.

`test_triton_kernel.py` runs this file in a process of its own: the interpreter has to be switched
on before triton is imported, and stays on in that process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from masks import KINDS, make_mask
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from asr.attention import AdditiveAttention, Alignment, Annotations, Window
from asr.attention import triton_kernel as kernel
from asr.attention.build import build_attention
from asr.attention.normalizers import Softmax
from asr.models import decoder as decoder_module
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings

# Without shrinking, which takes minutes in the interpreter.
PHASES = (Phase.explicit, Phase.generate)
BLOCK = 16  # of all sizes here, so that small tensors have several


class Case(NamedTuple):
    """What a comparison is made for; mask: "all", "padded", "gaps" or "nothing"."""

    batch: int = 2
    queries: int = 1
    length: int = 19
    annotation: int = 5
    attention: int = 6
    features: int = 0
    window: Window | None = None
    temperature: float = 1.0
    mask: str = "padded"
    place: float = 0.5  # of the past weights: 0 is the first annotation, 1 the last
    loss: str = "both"
    seed: int = 0


WINDOWS = [None, Window(2, 3), Window(3, 1, soft=True), Window(1, 1, stride=5)]
CASES = st.builds(
    Case,
    batch=st.integers(1, 2),
    queries=st.integers(1, 2),
    length=st.integers(1, 20),
    annotation=st.integers(1, 18),
    attention=st.integers(1, 18),
    features=st.sampled_from([0, 1, 3, 17]),
    window=st.sampled_from(WINDOWS),
    temperature=st.sampled_from([1.0, 0.5]),
    mask=st.sampled_from(KINDS),
    place=st.sampled_from([0.0, 0.4, 1.0]),
    loss=st.sampled_from(["context", "weights", "both"]),
    seed=st.integers(0, 100),
)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Compute in small blocks, so that small tensors have several."""
    with mock.patch.multiple(kernel, BLOCK_T=BLOCK, BLOCK_A=BLOCK, BLOCK_E=BLOCK):
        yield


def by_kernel(yes: bool) -> mock._patch:
    """Let modules compute on a CPU by the kernel, in which `triton` is set, or not."""
    uses = mock.Mock(side_effect=lambda device: yes)
    return mock.patch.object(AdditiveAttention, "uses_kernel", uses)


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def make_past(case: Case, dtype: torch.dtype) -> Alignment:
    """Past weights with their centre at `case.place`."""
    places = torch.arange(case.length) - case.place * (case.length - 1)
    energies = torch.randn(case.batch, case.queries, case.length) - places.square()
    weights = energies.softmax(-1).to(dtype).requires_grad_()
    return Alignment(weights, random(*weights.shape, dtype=dtype))


def losses(case: Case, context: Tensor, weights: Tensor) -> Tensor:
    """Return a loss of which context or weights or both have a gradient."""
    generator = torch.Generator().manual_seed(case.seed)
    towards = [torch.randn(each.shape, generator=generator) for each in (context, weights)]
    found = {
        "context": (context * towards[0].to(context)).sum(),
        "weights": (weights * towards[1].to(weights)).sum(),
    }
    return found["context"] + found["weights"] if case.loss == "both" else found[case.loss]


def results(case: Case, dtype: torch.dtype, use: bool) -> list[Tensor]:
    """Return context, weights, and the gradients of all inputs and parameters."""
    torch.manual_seed(case.seed)
    attention = AdditiveAttention(
        4, case.annotation, case.attention, case.features, 5,
        Softmax(case.temperature), case.window, use,
    ).to(dtype)  # fmt: skip
    query = random(case.batch, case.queries, 4, dtype=dtype)
    values = random(case.batch, case.length, case.annotation, dtype=dtype)
    past, mask = make_past(case, dtype), make_mask(case.mask, case.batch, case.length)
    with by_kernel(use):
        memory = attention.prepare(Annotations(values, mask))
        context, alignment = attention(query, memory, past)
    inputs = [query, values, *past, *attention.parameters()]
    loss = losses(case, context, alignment.weights)
    gradients = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    return [context.detach(), alignment.weights.detach(), *gradients]


def check_equal(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    """Check that tensors agree, relative to the largest number of each."""
    for mine, its in zip(found, wanted, strict=True):
        assert mine.dtype == its.dtype
        scale = max(1.0, float(its.detach().abs().max()))
        torch.testing.assert_close(mine, its, atol=tolerance * scale, rtol=0)


def compare(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    check_equal(results(case, dtype, True), results(case, dtype, False), tolerance)


@settings(max_examples=10, deadline=None, phases=PHASES)
@given(CASES)
@example(Case(length=1))
@example(Case(length=1, mask="nothing", features=2))
@example(Case(mask="nothing", features=3, window=Window(2, 3)))
@example(Case(window=Window(3, 1, soft=True), temperature=0.5))
@example(Case(length=37, queries=2, annotation=33, attention=33, features=17))
def test_float64(case: Case) -> None:
    compare(case, torch.float64, 1e-12)


@settings(max_examples=8, deadline=None, phases=PHASES)
@given(CASES)
@example(Case(length=37, queries=2, annotation=33, attention=33, features=3))
def test_float32(case: Case) -> None:
    compare(case, torch.float32, 1e-5)


@pytest.mark.parametrize("place", [0.0, 1.0])
@pytest.mark.parametrize("features", [0, 2])
def test_a_window_at_both_ends(place: float, features: int) -> None:
    case = Case(length=50, features=features, window=Window(2, 3), mask="all", place=place)
    found = results(case, torch.float64, True)
    weights = found[1][..., -3:] if place else found[1][..., :4]
    torch.testing.assert_close(weights.sum(), torch.tensor(2.0).double())
    check_equal(found, results(case, torch.float64, False), 1e-12)


def test_blocks_outside_the_window_are_not_read() -> None:
    query, keys, values, vector = random(1, 1, 4), random(1, 48, 4), random(1, 48, 3), random(4)
    with torch.no_grad():
        keys[:, BLOCK:], values[:, BLOCK:] = torch.nan, torch.nan
    allowed = torch.arange(48) < 5
    context, weights = kernel.additive_attention(query, keys, values, vector, allowed[None, None])
    (context.sum() + weights.square().sum()).backward()
    for each in (context, weights, query.grad, keys.grad[:, :5], values.grad, vector.grad):
        assert each.isfinite().all()
    assert (keys.grad[:, BLOCK:] == 0).all() and (values.grad[:, BLOCK:] == 0).all()


@pytest.mark.parametrize("loss", ["context", "weights", "both"])
@pytest.mark.parametrize("features", [0, 2])
def test_gradients_through_context_and_weights(loss: str, features: int) -> None:
    compare(Case(queries=2, features=features, loss=loss, mask="gaps"), torch.float64, 1e-12)


def test_a_query_without_an_allowed_position_gets_zeros() -> None:
    case = Case(mask="nothing", features=2)
    context, weights, d_query, d_values, *_ = results(case, torch.float64, True)
    assert d_query[0].abs().sum() > 0
    for each in (context, weights, d_query, d_values):
        assert (each[-1] == 0).all()


class Largest(TorchDispatchMode):
    """Records the bytes of the largest tensor that torch makes; the kernels make none."""

    size = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        self.size = max(self.size, *(each.nbytes for each in tensors), 0)
        return result


def test_no_tensor_has_a_vector_for_each_query_and_annotation() -> None:
    case = Case(queries=4, length=20, attention=18, features=2)
    sizes = []
    for use in (True, False):
        with Largest() as largest:
            results(case, torch.float32, use)
        sizes.append(largest.size)
    vectors = 4 * case.batch * case.queries * case.length * case.attention  # bytes
    assert sizes[0] < vectors == sizes[1]


@pytest.mark.parametrize("scale", [30.0, 1e4])
def test_large_keys_and_energies(scale: float) -> None:
    """e^{2x} overflows and the softmax is saturated; both are right."""
    torch.manual_seed(1)
    query, keys, values = random(1, 2, 4), random(1, 20, 4), random(1, 20, 3)
    allowed = torch.ones(1, 1, 20, dtype=torch.bool)
    given = [query, (keys * scale).float(), values.float(), scale * torch.ones(4)]
    context, weights = kernel.additive_attention(given[0].float(), *given[1:], allowed)
    energies = scale * torch.tanh(given[1].double()[:, None] + query[:, :, None]).sum(-1)
    torch.testing.assert_close(weights.double(), energies.softmax(-1), atol=1e-5, rtol=1e-5)
    context.sum().backward()
    assert query.grad.isfinite().all() and keys.grad.isfinite().all()


def test_inputs_in_bfloat16_with_sums_in_float32() -> None:
    torch.manual_seed(1)
    shapes = [(2, 2, 7), (2, 20, 7), (2, 20, 9), (7,), (2, 2, 20), (2, 2, 3, 20), (7, 3)]
    narrow = [random(*shape).bfloat16().detach().requires_grad_() for shape in shapes]
    towards = random(2, 2, 9).bfloat16().detach()
    allowed = torch.rand(2, 2, 20) < 0.7

    def with_gradients(context: Tensor, weights: Tensor) -> list[Tensor]:
        loss = (context.float() * towards).sum() + weights.square().sum()
        return [weights.detach(), context.detach(), *torch.autograd.grad(loss, narrow)]

    found = with_gradients(*kernel.additive_attention(*narrow[:4], allowed, *narrow[4:]))
    query, keys, values, vector, bias, features, project = (each.float() for each in narrow)
    inner = keys[:, None] + query[:, :, None] + features.transpose(2, 3) @ project.T
    energies = torch.tanh(inner) @ vector + bias
    weights = energies.masked_fill(~allowed, -torch.inf).softmax(-1)
    wanted = with_gradients((weights @ values).bfloat16(), weights)
    check_equal(found[:1], wanted[:1], 1e-6)
    check_equal(found, wanted, 2**-7)  # a unit of the last of bf16's 8 bits


def test_under_autocast_as_the_plain_path() -> None:
    torch.manual_seed(1)
    attention = AdditiveAttention(4, 6, 7, 2, 3, triton=True)
    annotations = Annotations(torch.randn(2, 20, 6), make_mask("padded", 2, 20))
    query = torch.randn(2, 2, 4)
    found = []
    for use in (True, False):
        with torch.autocast("cpu", torch.bfloat16), by_kernel(use):
            memory = attention.prepare(annotations)
            context, alignment = attention(query, memory, attention.start(memory, 2))
            context, alignment = attention(query, memory, alignment)
        loss = context.float().sum() + alignment.weights.square().sum()
        gradients = torch.autograd.grad(loss, list(attention.parameters()))
        found.append([alignment.weights.detach(), *gradients])
    check_equal(*found, 0.05)


@pytest.mark.parametrize("attend", ["before", "between"])
def test_a_decoder_with_the_kernel_equals_the_fused_loop(attend: str) -> None:
    torch.manual_seed(1)
    attention = AdditiveAttention(5, 4, 6, 2, 3, triton=True)
    options = DecoderSettings(3, 5, 3, attend=attend, initial="mean", dropout=0.0)
    decoder = Decoder(attention, 7, 4, options).double()
    values, tokens = random(2, 18, 4), torch.randint(7, (2, 3))
    found = []
    for use in (True, False):
        with (
            by_kernel(use),
            mock.patch.object(decoder_module, "unroll", wraps=decoder_module.unroll) as fused,
        ):
            memory = decoder.prepare(Annotations(values, make_mask("padded", 2, 18)))
            output = decoder(tokens, memory)
        assert fused.called is not use
        loss = output.logits.sin().sum() + output.weights.square().sum()
        gradients = torch.autograd.grad(loss, [values, *decoder.parameters()])
        found.append([output.logits.detach(), output.weights.detach(), *gradients])
    check_equal(*found, 1e-10)


def test_several_heads() -> None:
    torch.manual_seed(1)
    options = {"location_features": 2, "location_width": 3, "triton": True, "window": Window(3, 4)}
    attention = build_attention("additive", 4, 6, 8, 2, 1, options).double()
    values, query = random(2, 18, 6), random(2, 2, 4)
    past = make_past(Case(queries=2, length=18), torch.float64)
    found = []
    for use in (True, False):
        with by_kernel(use):
            memory = attention.prepare(Annotations(values, make_mask("padded", 2, 18)))
            context, alignment = attention(query, memory, past)
        loss = context.sin().sum() + alignment.weights.square().sum()
        gradients = torch.autograd.grad(loss, [values, query, *attention.parameters()])
        found.append([context.detach(), alignment.weights.detach(), *gradients])
    check_equal(*found, 1e-12)
