"""The location term of the energies and its gradient, as matrix products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class Location:
    """L f_j = Σ_p Σ_k kernel[:, p, k] · past_p[j + k − reach]: a convolution as one product.

    past_0 are the last weights, past_1 their sum over all past steps; reach = K // 2.
    """

    def __init__(self, kernel: Tensor, dtype: torch.dtype) -> None:
        """kernel: (A, 2, K). dtype: of the matrix products."""
        self.width = kernel.size(2)
        self.reach = self.width // 2
        self.dtype = dtype
        self.columns = kernel.flatten(1).to(dtype).T  # (2K, A)

    def band(self, previous: Tensor, cumulative: Tensor) -> Tensor:
        """Return the past weights of the K neighbours of each annotation: (B, T) → (B, T, 2K)."""
        past = torch.stack([previous, cumulative], dim=1).to(self.dtype)
        past = functional.pad(past, (self.reach, self.reach))
        return past.unfold(2, self.width, 1).transpose(1, 2).flatten(2)

    def term(self, band: Tensor) -> Tensor:
        """Return the term (B, T, A) of a band (B, T, 2K)."""
        return band @ self.columns


class LocationGradient:
    """Gradients of the kernel (summed over steps) and the past weights."""

    def __init__(self, kernel: Tensor, dtype: torch.dtype) -> None:
        """kernel: (A, 2, K). dtype: of the matrix products."""
        self.width = kernel.size(2)
        self.dtype = dtype
        self.flipped = kernel.flip(2).flatten(1).to(dtype)  # (A, 2K)
        self.d_kernel = torch.zeros_like(kernel).flatten(1)  # (A, 2K)

    def add_to_kernel(self, d_term: Tensor, band: Tensor) -> None:
        """∂kernel += Σ_b Σ_j ∂term_j band_jᵀ: d_term (B, T, A), band (B, T, 2K)."""
        self.d_kernel += d_term.flatten(0, 1).T @ band.flatten(0, 1)

    def past(self, d_term: Tensor) -> tuple[Tensor, Tensor]:
        """Return ∂previous and ∂cumulative (B, T) of the step, from ∂term (B, T, A).

        ∂past_p[i] = Σ_k kernel[:, p, k] · ∂term[i − k + reach]: one product, then sums over
        diagonals, which with the flipped kernel are a strided view of the product.
        """
        reach = self.width // 2
        padded = functional.pad(d_term @ self.flipped, (0, 0, reach, reach))  # (B, T+2·reach, 2K)
        batch, length, both = padded.shape
        diagonals = padded.as_strided(
            (batch, length - 2 * reach, 2, self.width),
            (length * both, both, self.width, both + 1),
            padded.storage_offset(),
        )
        return diagonals[:, :, 0].sum(-1), diagonals[:, :, 1].sum(-1)
