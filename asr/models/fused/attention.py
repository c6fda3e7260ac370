"""Additive attention of one step in the fused loop, and its gradient.

In step i, with query q = W s′_i, keys k_j = U h_j + b and location term l_j (or 0):

    ρ_j = 1 / (1 + e^{2 (k_j + q + l_j)})    e_j = vᵀ tanh(k_j + q + l_j) = Σ v − 2 vᵀ ρ_j
    α = softmax(e) over the allowed positions    c_i = Σ_j α_j h_j

The constant Σ v does not change the softmax and is omitted. Without a location term,
e^{2 (k_j + q)} = e^{2 k_j} · e^{2 q}, with e^{2 k_j} computed once for all steps: on a CPU, a
product and a reciprocal take a tenth of the time of torch's tanh. Equal to `AdditiveAttention`
with softmax.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asr.attention.normalizers import masked_softmax
from asr.models.fused.location import Location, LocationGradient
from asr.models.fused.spans import Span, Spans
from asr.models.fused.tensors import Inputs, Options, Trace, Weights

# Keys and queries are scaled by this, since 2^x takes half the time of e^x: e^{2x} = 2^{SCALE·x}.
SCALE = 2 / math.log(2)
# Largest |SCALE·k| and |SCALE·q| of which neither power of 2 is 0, infinite or denormal in float32.
# Their product may be: its ρ is then correctly 1 or 0.
LIMIT = 120.0


class Reciprocals:
    """ρ_j (B, n, A) of a step. All steps share one buffer: allocation is slower than the sum."""

    def __init__(self, keys: Tensor, start: Tensor, weights: Weights) -> None:
        """keys: (B, T, A). start: (B, P·H), s_0."""
        scaled = keys * SCALE
        self.has_powers = weights.spread is None and _are_bounded(scaled, start, weights.query)
        self.keys = scaled.exp2_() if self.has_powers else scaled  # (B, T, A)
        self.location: Location | None = None
        if weights.spread is not None and weights.project is not None:
            self.location = Location(weights.spread, SCALE * weights.project, len(keys))
        self.one = keys.new_ones(())
        self.buffer = torch.empty(0)

    def __call__(self, query: Tensor, span: Span, features: Tensor | None) -> Tensor:
        """Compute ρ_j from SCALE·q (B, A); the result is valid until the next call."""
        keys = span.rows(self.keys, self._buffer(span))
        out = self._buffer(span).view(keys.shape)
        if self.has_powers:
            torch.addcmul(self.one, keys, query.exp2()[:, None], out=out)
        elif self.location is not None and features is not None:
            self.location.add_to_keys(keys, query, features, out).exp2_().add_(1)
        else:
            torch.add(keys, query[:, None], out=out).exp2_().add_(1)
        return out.reciprocal_()

    def _buffer(self, span: Span) -> Tensor:
        """Return a buffer (B·n, A)."""
        batch, length, size = self.keys.shape
        rows = batch * length if span.flat is None else span.flat.size(0)
        if self.buffer.size(0) != rows:
            self.buffer = self.keys.new_empty(rows, size)
        return self.buffer


def _are_bounded(scaled_keys: Tensor, start: Tensor, query: Tensor) -> bool:
    """Whether e^{2k} and the e^{2q} of all steps are normal numbers.

    The parts of a state that a query is computed from are at most 1, or those of s_0.
    """
    if not scaled_keys.numel():
        return True
    largest_state = start.abs().amax().clamp_min(1)
    largest_query = SCALE * query.abs().sum(1).amax() * largest_state
    return bool(torch.maximum(scaled_keys.abs().amax(), largest_query) <= LIMIT)


class AttentionForward:
    """Attention step by step; writes contexts, weights and their sums into the trace."""

    def __init__(self, inputs: Inputs, weights: Weights, trace: Trace, options: Options) -> None:
        assert inputs.mask is not None
        self.values, self.trace = inputs.values, trace
        self.energy = -2 * weights.energy
        self.reciprocals = Reciprocals(inputs.keys, inputs.start, weights)
        self.weights = trace.weights(inputs.values.size(1))  # (U+1, B, T)
        self.spans = Spans(inputs.mask, options.window)
        self.buffer = torch.empty(0)
        if self.spans.gathers:
            batch, _, size = inputs.values.shape
            self.buffer = inputs.values.new_empty(batch * self.spans.width, size)

    def step(self, step: int, query: Tensor) -> Tensor:
        """Return the context (B, E) of a step, from SCALE·q (B, A)."""
        trace, last = self.trace, self.weights[step]
        span = self.spans.choose(last)
        features = None
        if (location := self.reciprocals.location) is not None:
            features = location.features(
                location.band(span.padded(trace.past[step], location.width))
            )
        reciprocals = self.reciprocals(query, span, features)
        energies, allowed = self.spans.restrict((reciprocals @ self.energy)[:, None], span, last)
        weights = masked_softmax(energies, allowed)  # (B, 1, n)
        span.write(weights[:, 0], self.weights[step + 1])
        if location is not None:
            sums = trace.past[:, :, 1]
            torch.add(sums[step], trace.past[step + 1, :, 0], out=sums[step + 1])
        if trace.window_starts is not None:
            trace.window_starts[step] = -1 if span.starts is None else span.starts[:, 0]
        values = span.rows(self.values, self.buffer)
        torch.bmm(weights, values, out=trace.contexts[step][:, None])
        return trace.contexts[step]


class AttentionGradient:
    """Gradients step by step, from ∂c_i and ∂α_i to ∂q, and sums of the shared gradients.

    tanh′(k + q + l) = 4 ρ (1 − ρ). The factor `slope` = 4v is omitted from the sums over steps, ∂k
    and ∂q, and applied when these sums are used.
    """

    def __init__(self, inputs: Inputs, weights: Weights, trace: Trace, options: Options) -> None:
        assert inputs.mask is not None
        self.values, self.trace = inputs.values, trace
        self.slope = 4 * weights.energy
        self.reciprocals = Reciprocals(inputs.keys, inputs.start, weights)
        self.queries = _queries(weights, trace, options)
        self.weights = trace.weights(inputs.values.size(1))
        self.location: LocationGradient | None = None
        if weights.spread is not None and weights.project is not None:
            sloped = self.slope[:, None] * weights.project
            self.location = LocationGradient(weights.spread, sloped, len(inputs.values))
        self.spans = Spans(inputs.mask, options.window)
        self.starts = trace.window_starts
        self.is_whole = [True] * len(trace.contexts)
        self.buffer = torch.empty(0)
        if self.starts is not None:
            self.is_whole = (self.starts < 0).any(1).tolist()
            batch, _, size = inputs.values.shape
            self.buffer = inputs.values.new_empty(batch * self.spans.width, size)
        self.d_keys = torch.zeros_like(inputs.keys)  # without slope
        self.d_energy = torch.zeros_like(weights.energy)
        # From later steps: through their previous weights, and through their sums of weights.
        self.d_past = torch.zeros_like(trace.past[0])  # (B, 1 or 2, T + K − 1)

    def step(self, step: int, d_context: Tensor, d_weights: Tensor, d_query: Tensor) -> None:
        """Write ∂q (B, A) without slope into d_query, from ∂c_i (B, E) and the loss's ∂α_i (B, T).

        ∂e = α ⊙ (∂α − Σ_j α_j ∂α_j)    ∂v −= Σ_j 2 ∂e_j ρ_j    ∂k_j += ∂e_j ρ_j (1 − ρ_j) · 4v
        """
        span = self.spans.all
        if not self.is_whole[step]:
            assert self.starts is not None
            span = self.spans.at(self.starts[step][:, None])
        d_energies = self._energies(step, span, d_context, d_weights)  # (B, n)
        band = features = None
        if (location := self.reciprocals.location) is not None:
            band = location.band(span.padded(self.trace.past[step], location.width))
            features = location.features(band)
        reciprocals = self.reciprocals(self.queries[step], span, features)
        self.d_energy.addmv_(reciprocals.flatten(0, 1).T, d_energies.flatten())
        slopes = reciprocals.addcmul_(reciprocals, reciprocals, value=-1)
        span.add_rows(slopes, d_energies, self.d_keys)
        if self.location is None or features is None or band is None:
            torch.bmm(d_energies[:, None], slopes, out=d_query[:, None])
            return
        d_query.copy_(self.location.query(features, d_energies, slopes))
        self.d_past[:, 0] = 0
        d_past = self.location.past(band, d_energies, slopes)
        span.add_padded(d_past, self.d_past, self.location.width)

    def key_gradient(self) -> Tensor:
        """Return ∂k (B, T, A) of all steps."""
        return self.d_keys.mul_(self.slope)

    def energy_gradient(self) -> Tensor:
        """Return ∂v (A,) of all steps; Σ v has no gradient, since ∂e of a softmax sums to 0."""
        return -2 * self.d_energy

    def location_gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Return ∂spread (C, 2, K) and ∂project (A, C) of all steps."""
        if self.location is None:
            return None, None
        d_spread, d_project = self.location.weights()
        return d_spread, self.slope[:, None] * d_project

    def value_gradient(self, d_contexts: Tensor) -> Tensor:
        """Return ∂h_j = Σ_i α_ij ∂c_i (B, T, E), without the gradient through the keys."""
        weights = self.weights[1:].permute(1, 2, 0)  # (B, T, U)
        return torch.bmm(weights, d_contexts.transpose(0, 1))

    def _energies(self, step: int, span: Span, d_context: Tensor, d_weights: Tensor) -> Tensor:
        """Return ∂e (B, n); ∂α_j = h_j · ∂c + that of the loss + that of later steps."""
        alpha = span.row(self.weights[step + 1])
        values = span.rows(self.values, self.buffer)
        d_alpha = torch.bmm(d_context[:, None], values.transpose(1, 2))[:, 0]
        d_alpha += span.row(d_weights)
        if self.location is not None:
            reach = self.location.width // 2
            later = self.d_past.sum(1).narrow(1, reach, d_weights.size(1))
            d_alpha += span.row(later)
        d_alpha *= alpha
        return d_alpha.addcmul_(alpha, d_alpha.sum(1, keepdim=True), value=-1)


def _queries(weights: Weights, trace: Trace, options: Options) -> Tensor:
    """Return SCALE·q of all steps (U, B, A)."""
    columns = (SCALE * weights.query).T.to(options.dtype)
    states = trace.query_states[:, :, : weights.query.size(1)]
    return (states.to(options.dtype) @ columns).to(states.dtype)
