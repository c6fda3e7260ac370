"""Additive attention as Triton kernels: energies, softmax and context in one, and their gradients.

For each query q of an utterance with keys k_j, values h_j and location features f_j:

    ρ_j = 1 / (1 + e^{2 (k_j + q + L f_j)})    e_j = vᵀ tanh(k_j + q + L f_j) + b_j
                                                   = Σ v − 2 vᵀ ρ_j + b_j
    α = softmax(e) over the allowed positions  c = Σ_j α_j h_j

The constant Σ v does not change the softmax and is omitted. With ∂x the gradient of the loss,
∂α_j that of the loss through α_j and c, and x_j = k_j + q + L f_j:

    ∂e_j = α_j (∂α_j − Σ_i α_i ∂α_i)     ∂x_j = 4 v ⊙ ρ_j ⊙ (1 − ρ_j) ∂e_j     ∂v = −2 Σ_j ∂e_j ρ_j
    ∂k_j = Σ ∂x_j over the queries       ∂q = Σ_j ∂x_j    ∂f_j = Lᵀ ∂x_j       ∂L = Σ_j ∂x_j f_jᵀ

No tensor (B, N, T, A) is made: ρ is computed in blocks, again in the backward pass. A program
writes its part of a sum, and the parts are added afterwards, without atomics: results do not depend
on the order of the programs. Blocks without an allowed position, such as those outside a hard
window, are skipped.

Letters: those of `asr.attention.contract`, and F location features. Only this module imports the
package triton, and it is imported only where the kernels run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

# Sizes of a block: annotations, numbers of a key, numbers of a value. With these and WARPS, up to
# 16 location features need no more registers than an sm_80 or sm_90 has. Never tuned on a GPU.
BLOCK_T, BLOCK_A, BLOCK_E = 32, 32, 128
WARPS = 8  # of 32 threads, in a program
SMALLEST = 16  # side of a matrix in `tl.dot`


def additive_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    vector: Tensor,
    allowed: Tensor,
    bias: Tensor | None = None,
    features: Tensor | None = None,
    project: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the context (B, N, E), in the dtype of values, and the weights (B, N, T).

    Sums and weights are float32, or float64 for a query in float64. A query without an allowed
    position has a context, weights and gradients of 0, as in `masked_softmax`.

    query: (B, N, A), W s. keys: (B, T, A). values: (B, T, E). vector: (A,), v.
    allowed: (B, 1 or N, T) bool. bias: (B, N, T), added to the energies.
    features, project: (B, N, F, T), the location features, and (A, F), L.
    """
    inputs = Inputs(query, keys, values, vector, allowed, bias, features, project)
    found: tuple[Tensor, Tensor] = _Attention.apply(*inputs)
    return found


class Inputs(NamedTuple):
    """The inputs of `additive_attention`, or their gradients."""

    query: Tensor
    keys: Tensor
    values: Tensor | None
    vector: Tensor
    allowed: Tensor | None
    bias: Tensor | None
    features: Tensor | None
    project: Tensor | None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        call = _Call(_readable(Inputs(*tensors)))  # type: ignore[arg-type]  # in this order
        ctx.set_materialize_grads(False)
        context, weights = call.attend()
        ctx.save_for_backward(*call.inputs, weights)
        return context, weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_context: Tensor | None, d_weights: Tensor | None) -> Inputs:
        *tensors, weights = ctx.saved_tensors
        call = _Call(Inputs(*tensors))
        d_energies = call.energy_gradient(weights, d_context, d_weights)
        found = call.input_gradients(d_energies)
        if d_context is not None:
            d_values = torch.bmm(weights.transpose(1, 2), d_context.to(weights.dtype))
            found = found._replace(values=d_values)
        return Inputs._make(
            None if gradient is None or given is None else gradient.to(given.dtype)
            for gradient, given in zip(found, call.inputs, strict=True)
        )


def _readable(inputs: Inputs) -> Inputs:
    """Return the inputs as the kernels read them: dense rows, `allowed` (B, N, T) as bytes."""
    assert inputs.values is not None and inputs.allowed is not None
    allowed = inputs.allowed.expand(*inputs.query.shape[:2], -1)
    dense = Inputs._make(None if each is None else each.contiguous() for each in inputs)
    return dense._replace(
        keys=_with_dense_rows(inputs.keys),
        values=_with_dense_rows(inputs.values),
        allowed=_with_dense_rows(allowed).view(torch.uint8),
    )


def _with_dense_rows(tensor: Tensor) -> Tensor:
    """Return a tensor whose rows are dense; gaps between rows remain, to avoid a copy."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


class _Call:
    """The kernels' launches for some inputs, which are `_readable`."""

    def __init__(self, inputs: Inputs) -> None:
        assert inputs.values is not None and inputs.allowed is not None
        self.inputs = inputs
        self.batch, self.queries, self.size = inputs.query.shape
        self.length, self.width = inputs.values.shape[1:]
        self.channels = 0 if inputs.features is None else inputs.features.size(2)
        self.dtype = torch.promote_types(inputs.query.dtype, torch.float32)
        self.key_strides = inputs.keys.stride()[:2]
        self.value_strides = inputs.values.stride()[:2]
        self.allowed_strides = inputs.allowed.stride()[:2]
        self.block_channels = triton.next_power_of_2(max(SMALLEST, self.channels))

    def attend(self) -> tuple[Tensor, Tensor]:
        """Return the context (B, N, E) and the weights (B, N, T)."""
        inputs = self.inputs
        assert inputs.values is not None
        context = inputs.values.new_empty(self.batch, self.queries, self.width)
        weights = self._empty(self.batch, self.queries, self.length)
        with torch.cuda.device_of(weights):
            _attend[(self.batch * self.queries,)](
                *inputs, context, weights,
                *self.key_strides, *self.value_strides, *self.allowed_strides,
                self.queries, self.length, self.size, self.width, self.channels,
                BLOCK_T=BLOCK_T, BLOCK_A=BLOCK_A, BLOCK_E=BLOCK_E, BLOCK_F=self.block_channels,
                num_warps=WARPS,
            )  # fmt: skip
        return context, weights

    def energy_gradient(
        self, weights: Tensor, d_context: Tensor | None, d_weights: Tensor | None
    ) -> Tensor:
        """Return ∂e (B, N, T) from ∂c and ∂α of the loss; None: there is none."""
        d_energies = torch.empty_like(weights)
        with torch.cuda.device_of(weights):
            _energy_gradient[(self.batch * self.queries,)](
                self.inputs.values, self.inputs.allowed, weights,
                None if d_context is None else d_context.contiguous(),
                None if d_weights is None else d_weights.contiguous(),
                d_energies, *self.value_strides, *self.allowed_strides,
                self.queries, self.length, self.width,
                BLOCK_T=BLOCK_T, BLOCK_E=BLOCK_E, num_warps=WARPS,
            )  # fmt: skip
        return d_energies

    def input_gradients(self, d_energies: Tensor) -> Inputs:
        """Return the gradients of the inputs from ∂e, without ∂h."""
        inputs, batch, queries, length = self.inputs, self.batch, self.queries, self.length
        of_t, of_a = triton.cdiv(length, BLOCK_T), triton.cdiv(self.size, BLOCK_A)
        d_query = self._empty(of_t, batch, queries, self.size)
        d_keys = self._empty(batch, length, self.size)
        d_vector = self._empty(batch, of_t, self.size)
        d_features = d_project = None
        if self.channels:
            d_features = self._empty(of_a, batch, queries, self.channels, length)
            d_project = self._empty(batch, of_t, self.size, self.channels)
        with torch.cuda.device_of(d_energies):
            _input_gradients[(batch, of_t, of_a)](
                inputs.query, inputs.keys, inputs.vector, inputs.allowed,
                inputs.features, inputs.project, d_energies,
                d_query, d_keys, d_vector, d_features, d_project,
                *self.key_strides, *self.allowed_strides,
                batch, queries, length, self.size, self.channels,
                BLOCK_T=BLOCK_T, BLOCK_A=BLOCK_A, BLOCK_F=self.block_channels, num_warps=WARPS,
            )  # fmt: skip
        return Inputs(
            query=d_query.sum(0),
            keys=d_keys,
            values=None,
            vector=d_vector.sum((0, 1)),
            allowed=None,
            bias=d_energies,
            features=None if d_features is None else d_features.sum(0),
            project=None if d_project is None else d_project.sum((0, 1)),
        )

    def _empty(self, *shape: int) -> Tensor:
        return self.inputs.query.new_empty(shape, dtype=self.dtype)


@triton.jit
def _tile(pointer, rows, columns, row_count, column_count, stride, dtype: tl.constexpr):
    """Load rows × columns of a matrix as dtype, 0 outside."""
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    places = pointer + rows[:, None] * stride + columns[None, :]
    return tl.load(places, mask=inside, other=0).to(dtype)


@triton.jit
def _reciprocals(keys, query, features, project):
    """ρ (T, A) of keys (T, A) and a query (A,), with features (F, T) and project (A, F) or None."""
    inner = keys + query[None, :]
    if features is not None:
        inner += tl.dot(tl.trans(features), tl.trans(project), input_precision="ieee")
    return 1 / (1 + tl.exp(2 * inner))


@triton.jit
def _is_allowed(allowed, positions, length):
    """Load a row of `allowed` as bool, False outside."""
    return tl.load(allowed + positions, mask=positions < length, other=0) != 0


@triton.jit
def _any(flags):
    return tl.max(flags.to(tl.int32), 0) > 0


@triton.jit(do_not_specialize=["queries", "length"])
def _attend(
    query, keys, values, vector, allowed, bias, features, project, context, weights,
    keys_b, keys_t, values_b, values_t, allowed_b, allowed_n,
    queries, length, size, width, channels,
    BLOCK_T: tl.constexpr, BLOCK_A: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """One query of one utterance: energies, then weights, then context.

    The energies are stored where the weights will be. x_b, x_n and x_t are strides.
    """
    row = tl.program_id(0).to(tl.int64)  # of B·N
    batch = row // queries
    dtype = weights.dtype.element_ty
    allowed += batch * allowed_b + (row % queries) * allowed_n
    weights += row * length
    highest = tl.full((), float("-inf"), dtype)
    total = tl.zeros((), dtype)
    for first in range(0, length, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        is_allowed = _is_allowed(allowed, t, length)
        if _any(is_allowed):
            energies = tl.zeros((BLOCK_T,), dtype)
            for first_a in range(0, size, BLOCK_A):
                a = first_a + tl.arange(0, BLOCK_A)
                one_query = tl.load(query + row * size + a, mask=a < size, other=0).to(dtype)
                tile = _tile(keys + batch * keys_b, t, a, length, size, keys_t, dtype)
                if features is not None:
                    f = tl.arange(0, BLOCK_F)
                    its = features + row * channels * length
                    reciprocals = _reciprocals(
                        tile,
                        one_query,
                        _tile(its, f, t, channels, length, length, dtype),
                        _tile(project, a, f, size, channels, channels, dtype),
                    )
                else:
                    reciprocals = _reciprocals(tile, one_query, None, None)
                v = tl.load(vector + a, mask=a < size, other=0).to(dtype)
                energies -= 2 * tl.sum(reciprocals * v[None, :], 1)
            if bias is not None:
                energies += tl.load(bias + row * length + t, mask=t < length, other=0).to(dtype)
            energies = tl.where(is_allowed, energies, float("-inf"))
            tl.store(weights + t, energies, mask=t < length)
            higher = tl.maximum(highest, tl.max(energies, 0))
            total = total * tl.exp(highest - higher) + tl.sum(tl.exp(energies - higher), 0)
            highest = higher
    tl.debug_barrier()
    for first in range(0, length, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        is_allowed = _is_allowed(allowed, t, length)
        energies = tl.load(weights + t, mask=is_allowed, other=0)
        shares = tl.where(is_allowed, tl.exp(energies - highest) / total, 0)
        tl.debug_barrier()  # all threads have loaded what is now overwritten
        tl.store(weights + t, shares, mask=t < length)
    tl.debug_barrier()
    for first_e in range(0, width, BLOCK_E):
        e = first_e + tl.arange(0, BLOCK_E)
        mean = tl.zeros((BLOCK_E,), dtype)
        for first in range(0, length, BLOCK_T):
            t = first + tl.arange(0, BLOCK_T)
            if _any(_is_allowed(allowed, t, length)):
                tile = _tile(values + batch * values_b, t, e, length, width, values_t, dtype)
                shares = tl.load(weights + t, mask=t < length, other=0)
                mean += tl.sum(tile * shares[:, None], 0)
        tl.store(context + row * width + e, mean, mask=e < width)


@triton.jit(do_not_specialize=["queries", "length"])
def _energy_gradient(
    values, allowed, weights, d_context, d_weights, d_energies,
    values_b, values_t, allowed_b, allowed_n, queries, length, width,
    BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """∂e of one query of one utterance. ∂α is stored where ∂e will be."""
    row = tl.program_id(0).to(tl.int64)
    batch = row // queries
    dtype = weights.dtype.element_ty
    allowed += batch * allowed_b + (row % queries) * allowed_n
    weights += row * length
    d_energies += row * length
    total = tl.zeros((), dtype)  # Σ α ∂α
    for first in range(0, length, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        is_allowed = _is_allowed(allowed, t, length)
        if _any(is_allowed):
            d_alpha = tl.zeros((BLOCK_T,), dtype)
            if d_weights is not None:
                d_alpha += tl.load(d_weights + row * length + t, mask=is_allowed, other=0).to(dtype)
            if d_context is not None:
                for first_e in range(0, width, BLOCK_E):
                    e = first_e + tl.arange(0, BLOCK_E)
                    tile = _tile(values + batch * values_b, t, e, length, width, values_t, dtype)
                    its = tl.load(d_context + row * width + e, mask=e < width, other=0).to(dtype)
                    d_alpha += tl.sum(tile * its[None, :], 1)
            tl.store(d_energies + t, d_alpha, mask=t < length)
            total += tl.sum(d_alpha * tl.load(weights + t, mask=t < length, other=0), 0)
    tl.debug_barrier()
    for first in range(0, length, BLOCK_T):
        t = first + tl.arange(0, BLOCK_T)
        is_allowed = _is_allowed(allowed, t, length)
        alpha = tl.load(weights + t, mask=is_allowed, other=0)
        d_alpha = tl.load(d_energies + t, mask=is_allowed, other=0)
        d_energy = tl.where(is_allowed, alpha * (d_alpha - total), 0)
        tl.debug_barrier()  # all threads have loaded what is now overwritten
        tl.store(d_energies + t, d_energy, mask=t < length)


@triton.jit(do_not_specialize=["batches", "queries", "length"])
def _input_gradients(
    query, keys, vector, allowed, features, project, d_energies,
    d_query, d_keys, d_vector, d_features, d_project,
    keys_b, keys_t, allowed_b, allowed_n, batches, queries, length, size, channels,
    BLOCK_T: tl.constexpr, BLOCK_A: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """The part of one block of annotations and one block of A, for all queries of an utterance."""
    batch = tl.program_id(0).to(tl.int64)
    block_t, block_a = tl.program_id(1), tl.program_id(2)
    part = batch * tl.num_programs(1) + block_t  # of ∂v and ∂L
    dtype = d_energies.dtype.element_ty
    t = block_t * BLOCK_T + tl.arange(0, BLOCK_T)
    a = block_a * BLOCK_A + tl.arange(0, BLOCK_A)
    f = tl.arange(0, BLOCK_F)
    tile = _tile(keys + batch * keys_b, t, a, length, size, keys_t, dtype)
    v = tl.load(vector + a, mask=a < size, other=0).to(dtype)
    key_sum = tl.zeros((BLOCK_T, BLOCK_A), dtype)
    vector_sum = tl.zeros((BLOCK_A,), dtype)
    if features is not None:
        matrix = _tile(project, a, f, size, channels, channels, dtype)
        matrix_sum = tl.zeros((BLOCK_A, BLOCK_F), dtype)
    for n in range(0, queries):
        row = batch * queries + n
        query_sum = tl.zeros((BLOCK_A,), dtype)
        if features is not None:
            feature_gradient = tl.zeros((BLOCK_F, BLOCK_T), dtype)
        if _any(_is_allowed(allowed + batch * allowed_b + n * allowed_n, t, length)):
            one_query = tl.load(query + row * size + a, mask=a < size, other=0).to(dtype)
            if features is not None:
                its = features + row * channels * length
                its_features = _tile(its, f, t, channels, length, length, dtype)
                reciprocals = _reciprocals(tile, one_query, its_features, matrix)
            else:
                reciprocals = _reciprocals(tile, one_query, None, None)
            d_energy = tl.load(d_energies + row * length + t, mask=t < length, other=0)
            sloped = d_energy[:, None] * reciprocals
            vector_sum -= 2 * tl.sum(sloped, 0)
            d_inner = 4 * v[None, :] * sloped * (1 - reciprocals)  # ∂x (T, A)
            key_sum += d_inner
            query_sum += tl.sum(d_inner, 0)
            if features is not None:
                backwards = tl.trans(d_inner)
                matrix_sum += tl.dot(backwards, tl.trans(its_features), input_precision="ieee")
                feature_gradient += tl.dot(tl.trans(matrix), backwards, input_precision="ieee")
        place = (block_t * batches * queries + row) * size
        tl.store(d_query + place + a, query_sum, mask=a < size)
        if features is not None:
            place = (block_a * batches * queries + row) * channels * length
            inside = (f < channels)[:, None] & (t < length)[None, :]
            places = d_features + place + f[:, None] * length + t[None, :]
            tl.store(places, feature_gradient, mask=inside)
    inside = (t < length)[:, None] & (a < size)[None, :]
    places = d_keys + (batch * length + t)[:, None] * size + a[None, :]
    tl.store(places, key_sum, mask=inside)
    tl.store(d_vector + part * size + a, vector_sum, mask=a < size)
    if features is not None:
        inside = (a < size)[:, None] & (f < channels)[None, :]
        places = d_project + (part * size + a)[:, None] * channels + f[None, :]
        tl.store(places, matrix_sum, mask=inside)
