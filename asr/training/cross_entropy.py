"""Cross-entropy of an output layer, without ever holding all of its logits.

The logits of a batch are the largest tensor of a training step, and log-softmax, label smoothing
and their gradients want several more of its size. Here they are made for a few positions at a
time and turned into their gradient, which alone is kept, in the 16 bits of the products if those
have 16.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from asr.attention.normalizers import at_least_float32

LOGITS_AT_ONCE: Final = 2**20  # 4 MB in float32: they stay in a processor's cache


def cross_entropy(
    readout: Tensor, matrix: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of targets (N,) given the readouts (N, R), and how many are likeliest.

    matrix: (V, R) and bias: (V,) of the output layer. label_smoothing: the share ε of the target's
    probability that is spread over all V. A target counts as likeliest where no logit is above
    its own. Both results are numbers; without any target both are 0.
    Source: label smoothing, Szegedy et al. 2016, section 7.
    """
    device = readout.device.type
    # Under autocast the products are in 16 bits, all else is not.
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    with torch.autocast(device, enabled=False):
        results: tuple[Tensor, Tensor] = _CrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch
            readout, matrix, bias, targets, label_smoothing, narrow or matrix.dtype
        )
    return results


class _CrossEntropy(torch.autograd.Function):
    """The gradient is made on the way forward, while the logits are there."""

    @staticmethod
    def forward(
        ctx: Any,
        readout: Tensor,  # (N, R)
        matrix: Tensor,  # (V, R)
        bias: Tensor,  # (V,)
        targets: Tensor,  # (N,)
        smoothing: float,
        dtype: torch.dtype,  # of the products
    ) -> tuple[Tensor, Tensor]:
        size = len(bias)
        narrow, rows, offsets = (each.to(dtype) for each in (readout, matrix, bias))
        d_logits = narrow.new_empty(len(readout), size)  # (N, V), times N
        d_bias = torch.zeros_like(bias)
        loss, likeliest = bias.new_zeros(()), targets.new_zeros(())
        at_once = max(1, LOGITS_AT_ONCE // size)
        parts = (each.split(at_once) for each in (narrow, targets, d_logits))
        for some, wanted, d_some in zip(*parts, strict=True):
            logits = at_least_float32(torch.addmm(offsets, some, rows.T))  # (n, V)
            gradient = torch.softmax(logits, dim=1)
            top, its = logits.amax(1, keepdim=True), logits.gather(1, wanted[:, None])
            total = top - gradient.amax(1, keepdim=True).log()  # ln Σ exp, by its largest term
            loss += (total - (1 - smoothing) * its - smoothing * logits.mean(1, keepdim=True)).sum()
            likeliest += (its >= top).sum()
            gradient -= smoothing / size  # softmax less the smoothed target
            gradient.scatter_add_(1, wanted[:, None], torch.full_like(its, smoothing - 1))
            d_bias += gradient.sum(0)
            d_some.copy_(gradient)
        ctx.save_for_backward(narrow, rows, d_logits, d_bias)
        ctx.count = max(1, len(targets))
        ctx.mark_non_differentiable(likeliest)
        return loss / ctx.count, likeliest

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        narrow, rows, d_logits, d_bias = ctx.saved_tensors
        factor = gradients[0] / ctx.count
        d_readout = factor * (d_logits @ rows).to(factor.dtype)
        d_matrix = factor * (d_logits.T @ narrow).to(factor.dtype)
        return d_readout, d_matrix, factor * d_bias, None, None, None
