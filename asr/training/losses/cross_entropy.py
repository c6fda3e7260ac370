"""Cross-entropy of an output layer in blocks, without storing all logits.

The logits of a batch are the largest tensor of a training step; log-softmax, label smoothing and
their gradients need several more of that size. Here logits are computed for a block of positions
at a time and replaced by their gradient, the only tensor that is kept (in bf16 under autocast).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from asr.attention.normalizers import at_least_float32

LOGITS_AT_ONCE: Final = 2**20  # 4 MB in float32, which fits a processor's cache
LOGITS_AT_ONCE_GPU: Final = 2**26  # 256 MB: small blocks take longer to launch than to compute


class Outcome(NamedTuple):
    """Scalars of a batch of N targets.

    loss: mean cross-entropy plus weighted consistency; the only field with a gradient.
    inconsistency: the consistency term without its factor. right: number of targets that have the
        highest logit.
    """

    loss: Tensor
    inconsistency: Tensor
    right: Tensor


def cross_entropy(
    readout: Tensor,
    matrix: Tensor,
    bias: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    consistency: float = 0.0,
    weights: Tensor | None = None,
) -> Outcome:
    """Return the mean cross-entropy of targets (N,) given readouts (N, R), and the accuracy count.

    matrix: (V, R) and bias: (V,) of the output layer.
    label_smoothing: probability ε that is moved from the target to a uniform distribution over V.
    consistency: factor of ½ (KL(p‖q) + KL(q‖p)) between two passes with different dropout. Above
        0, the second half of the readouts repeats the targets of the first half.
    weights: (N,), factors of the loss of each target before the mean.
    Without targets all results are 0.
    Sources: label smoothing, Szegedy et al. 2016, section 7; consistency, Liang et al. 2021,
    "R-Drop: regularized dropout for neural networks", here with the mean over both halves.
    """
    device = readout.device.type
    # Under autocast only the matrix products run in 16 bits.
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    with torch.autocast(device, enabled=False):
        results: tuple[Tensor, Tensor, Tensor] = _CrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch
            readout,
            matrix,
            bias,
            targets,
            label_smoothing,
            consistency,
            torch.ones_like(targets, dtype=bias.dtype) if weights is None else weights,
            narrow or matrix.dtype,
        )
    return Outcome(*results)


class _CrossEntropy(torch.autograd.Function):
    """Computes the gradient in the forward pass, while the logits exist."""

    @staticmethod
    def forward(
        ctx: Any,
        readout: Tensor,  # (N, R)
        matrix: Tensor,  # (V, R)
        bias: Tensor,  # (V,)
        targets: Tensor,  # (N,)
        smoothing: float,
        consistency: float,
        weights: Tensor,  # (N,)
        dtype: torch.dtype,  # of the products
    ) -> tuple[Tensor, Tensor, Tensor]:
        size = len(bias)
        narrow, rows, offsets = (each.to(dtype) for each in (readout, matrix, bias))
        d_logits = narrow.new_empty(len(readout), size)  # (N, V), times N
        d_bias = torch.zeros_like(bias)
        loss, distance = bias.new_zeros(()), bias.new_zeros(())
        likeliest = targets.new_zeros(())
        copies = 2 if consistency else 1
        most = LOGITS_AT_ONCE_GPU if readout.is_cuda else LOGITS_AT_ONCE
        at_once = max(1, most // (copies * size))
        halves = (each.unflatten(0, (copies, -1)) for each in (narrow, targets, weights, d_logits))
        parts = (each.split(at_once, dim=1) for each in halves)
        for some, wanted, weight, d_some in zip(*parts, strict=True):  # (copies, n, ·)
            logits = at_least_float32(functional.linear(some, rows, offsets))
            gradient = torch.softmax(logits, dim=-1)
            top, its = logits.amax(-1, keepdim=True), logits.gather(-1, wanted[..., None])
            total = (
                top - gradient.amax(-1, keepdim=True).log()
            )  # ln Σ exp, computed from its largest term
            mean = logits.mean(-1, keepdim=True)
            each = total - (1 - smoothing) * its - smoothing * mean
            loss += (weight[..., None] * each).sum()
            likeliest += (its >= top).sum()
            pull = None
            if consistency:
                apart, pull = _divergence(logits - total, gradient)
                distance += apart
            gradient -= smoothing / size  # softmax minus the smoothed target
            gradient.scatter_add_(-1, wanted[..., None], torch.full_like(its, smoothing - 1))
            gradient *= weight[..., None]
            if pull is not None:
                gradient += consistency * pull
            d_bias += gradient.sum((0, 1))
            d_some.copy_(gradient)
        ctx.save_for_backward(narrow, rows, d_logits, d_bias)
        ctx.count = max(1, len(targets))
        distance /= ctx.count
        ctx.mark_non_differentiable(distance, likeliest)
        return loss / ctx.count + consistency * distance, distance, likeliest

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        narrow, rows, d_logits, d_bias = ctx.saved_tensors
        factor = gradients[0] / ctx.count
        d_readout = factor * (d_logits @ rows).to(factor.dtype)
        d_matrix = factor * (d_logits.T @ narrow).to(factor.dtype)
        return d_readout, d_matrix, factor * d_bias, None, None, None, None, None


def _divergence(logs: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ KL(p‖q) + KL(q‖p) over n pairs, and its gradient w.r.t. the logits (2, n, V).

    logs, probabilities: (2, n, V), of p and q; each has half of the sum.
    """
    apart = logs[0] - logs[1]  # (n, V)
    apart = torch.stack([apart, -apart])
    each = (probabilities * apart).sum(-1, keepdim=True)  # (2, n, 1): KL(p‖q), KL(q‖p)
    pull = probabilities * (apart - each) + probabilities - probabilities.flip(0)
    return each.sum(), pull
