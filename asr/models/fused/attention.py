"""Additive attention of one step in the fused loop, and its gradient.

In step i, with query q = W s′_i, keys k_j = U h_j + b and location term l_j = L f_j (or 0):

    σ_j = σ(2 (k_j + q + l_j))    e_j = vᵀ tanh(k_j + q + l_j) = 2 vᵀ σ_j − Σ v
    α = softmax(e) over the allowed positions    c_i = Σ_j α_j h_j

tanh(x) = 2σ(2x) − 1, because torch's σ takes a tenth of the time of its tanh on a CPU; the
constant Σ v does not change the softmax and is omitted. Equal to `AdditiveAttention` with softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor

from asr.attention.contract import Alignment
from asr.attention.normalizers import masked_softmax
from asr.models.fused.location import Location, LocationGradient
from asr.models.fused.tensors import Inputs, Options, Trace, Weights


class Sigmoids:
    """σ_j (B, T, A) of a step. All steps share one buffer: allocation is slower than the sum."""

    def __init__(self, keys: Tensor, location: Tensor | None, dtype: torch.dtype) -> None:
        """keys: (B, T, A). location: the kernel, or None. dtype: of the matrix products."""
        self.doubled_keys = 2 * keys
        self.buffer = torch.empty_like(keys)
        self.location = None if location is None else Location(2 * location, dtype)

    def band(self, trace: Trace, step: int) -> Tensor | None:
        """Return the input (B, T, 2K) of the location term of a step, if there is one."""
        if self.location is None:
            return None
        return self.location.band(trace.weights[step], trace.cumulative[step])

    def __call__(self, doubled_query: Tensor, band: Tensor | None) -> Tensor:
        """Compute σ_j from 2q (B, A); the result is valid until the next call."""
        torch.add(self.doubled_keys, doubled_query[:, None], out=self.buffer)
        if self.location is not None and band is not None:
            self.buffer += self.location.term(band)
        return self.buffer.sigmoid_()


class AttentionForward:
    """Attention step by step; writes contexts, weights and their sums into the trace."""

    def __init__(self, inputs: Inputs, weights: Weights, trace: Trace, options: Options) -> None:
        self.values = inputs.values
        assert inputs.mask is not None
        self.allowed = inputs.mask[:, None]  # (B, 1, T)
        self.doubled_energy = 2 * weights.energy
        self.sigmoids = Sigmoids(inputs.keys, weights.location, options.dtype)
        self.trace = trace
        self.window = options.window

    def step(self, step: int, doubled_query: Tensor) -> Tensor:
        """Return the context (B, E) of a step, from 2q (B, A)."""
        trace, allowed = self.trace, self.allowed
        sigmoids = self.sigmoids(doubled_query, self.sigmoids.band(trace, step))
        energies = (sigmoids @ self.doubled_energy)[:, None]  # (B, 1, T)
        if self.window is not None:
            past = Alignment(trace.weights[step][:, None], trace.cumulative[step][:, None])
            energies, allowed = self.window.apply(energies, allowed, past)
        weights = masked_softmax(energies, allowed)  # (B, 1, T)
        trace.weights[step + 1] = weights[:, 0]
        torch.add(trace.cumulative[step], weights[:, 0], out=trace.cumulative[step + 1])
        torch.bmm(weights, self.values, out=trace.contexts[step][:, None])
        return trace.contexts[step]


class AttentionGradient:
    """Gradients step by step, from ∂c_i and ∂α_i to ∂q, and sums of the shared gradients.

    tanh′(x) = 4 σ(2x) (1 − σ(2x)). The factor `slope` = 4v is omitted from the sums over steps, ∂k,
    ∂q and ∂L, and applied when these sums are used.
    """

    def __init__(
        self, values: Tensor, keys: Tensor, weights: Weights, trace: Trace, options: Options
    ) -> None:
        self.trace = trace
        self.value_columns = values.transpose(1, 2)  # (B, E, T)
        self.slope = 4 * weights.energy
        self.sigmoids = Sigmoids(keys, weights.location, options.dtype)
        query_columns = weights.query.T.to(options.dtype)
        queries = trace.query_states.to(options.dtype) @ query_columns
        self.doubled_queries = 2 * queries.to(keys.dtype)  # (U, B, A)
        self.location = None
        if weights.location is not None:
            sloped = self.slope[:, None, None] * weights.location
            self.location = LocationGradient(sloped, options.dtype)
        self.d_keys = torch.zeros_like(keys)  # without slope
        self.d_energy = torch.zeros_like(weights.energy)
        # From later steps: through their previous weights, and through their sums of weights.
        self.d_previous = torch.zeros_like(trace.weights[0])
        self.d_cumulative = torch.zeros_like(trace.weights[0])

    def step(self, step: int, d_context: Tensor, d_weights: Tensor, d_query: Tensor) -> None:
        """Write ∂q (B, A) without slope into d_query, from ∂c_i (B, E) and the loss's ∂α_i (B, T).

        ∂e = α ⊙ (∂α − Σ_j α_j ∂α_j)    ∂v += Σ_j ∂e_j 2σ_j    ∂k_j += ∂e_j σ_j (1 − σ_j) · 4v
        """
        d_energies = self._energies(step, d_context, d_weights)
        band = self.sigmoids.band(self.trace, step)
        sigmoids = self.sigmoids(self.doubled_queries[step], band)
        self.d_energy += d_energies.flatten() @ sigmoids.flatten(0, 1)
        d_inner = sigmoids.addcmul_(sigmoids, sigmoids, value=-1).mul_(d_energies[:, :, None])
        self.d_keys += d_inner
        torch.sum(d_inner, 1, out=d_query)
        if self.location is not None and band is not None:
            d_term = d_inner.to(self.location.dtype)
            self.location.add_to_kernel(d_term, band)
            self.d_previous, d_cumulative = self.location.past(d_term)
            self.d_cumulative = self.d_cumulative + d_cumulative

    def key_gradient(self) -> Tensor:
        """Return ∂k (B, T, A) of all steps."""
        return self.d_keys.mul_(self.slope)

    def energy_gradient(self) -> Tensor:
        """Return ∂v (A,) of all steps; −Σ v has no gradient, since ∂e of a softmax sums to 0."""
        return 2 * self.d_energy

    def location_gradient(self) -> Tensor | None:
        """Return ∂L (A, 2, K) of all steps."""
        if self.location is None:
            return None
        d_kernel: Tensor = (self.slope[:, None] * self.location.d_kernel).unflatten(1, (2, -1))
        return d_kernel

    def value_gradient(self, d_contexts: Tensor) -> Tensor:
        """Return ∂h_j = Σ_i α_ij ∂c_i (B, T, E), without the gradient through the keys."""
        weights = self.trace.weights[1:].permute(1, 2, 0)  # (B, T, U)
        return torch.bmm(weights, d_contexts.transpose(0, 1))

    def _energies(self, step: int, d_context: Tensor, d_weights: Tensor) -> Tensor:
        """Return ∂e (B, T); ∂α_j = h_j · ∂c + that of the loss + that of later steps."""
        d_alpha = torch.bmm(d_context[:, None], self.value_columns)[:, 0]  # (B, T)
        d_alpha += d_weights
        d_alpha += self.d_previous
        d_alpha += self.d_cumulative
        alpha = self.trace.weights[step + 1]
        d_alpha *= alpha
        return d_alpha.addcmul_(alpha, d_alpha.sum(1, keepdim=True), value=-1)
