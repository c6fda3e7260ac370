"""The location term of the energies and its gradient, as matrix products.

    f_cj = Σ_p Σ_k spread[c, p, k] · past_p[j + k − K // 2]    l_j = Σ_c project[:, c] f_cj

past_0 are the last weights, past_1 their sum over all past steps.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class Location:
    """The features of a step, and their product with the projection together with the query.

    The query is the projection of one more feature, which is 1: one product then computes q + l_j.
    """

    def __init__(self, spread: Tensor, project: Tensor, batch: int) -> None:
        """spread: (C, 2, K). project: (A, C), in the unit of the queries."""
        self.width = spread.size(2)
        self.channels = len(spread)
        self.rows = spread.flatten(1).expand(batch, -1, -1)  # (B, C, 2K)
        self.mixing = project.new_empty(batch, self.channels + 1, len(project))
        self.mixing[:, :-1] = project.T

    def band(self, past: Tensor) -> Tensor:
        """Return the K neighbours of n annotations: past (B, 2, n + K − 1) → (B, 2K, n)."""
        return past.unfold(2, self.width, 1).transpose(2, 3).flatten(1, 2)

    def features(self, band: Tensor) -> Tensor:
        """Return the features and 1: band (B, 2K, n) → (B, C + 1, n)."""
        features = band.new_ones(band.size(0), self.channels + 1, band.size(2))
        features[:, :-1] = torch.bmm(self.rows, band)
        return features

    def add_to_keys(self, keys: Tensor, query: Tensor, features: Tensor, out: Tensor) -> Tensor:
        """Write k_j + q + l_j into out: keys (B, n, A), which may be out; query (B, A)."""
        self.mixing[:, -1] = query
        return torch.baddbmm(keys, features.transpose(1, 2), self.mixing, out=out)


class LocationGradient:
    """Gradients of spread, project, queries and past weights; weights' gradients sum over steps."""

    def __init__(self, spread: Tensor, project: Tensor, batch: int) -> None:
        """spread: (C, 2, K). project: (A, C), times the slope of the energies."""
        self.width = spread.size(2)
        self.projections = project.T.expand(batch, -1, -1)  # (B, C, A)
        self.columns = spread.flatten(1).T.expand(batch, -1, -1)  # (B, 2K, C)
        self.d_spread = spread.new_zeros(batch, len(spread), 2 * self.width)
        self.d_mixing = project.new_zeros(batch, len(spread) + 1, len(project))

    def query(self, features: Tensor, d_energies: Tensor, slopes: Tensor) -> Tensor:
        """Return ∂q (B, A) without the slope 4v; add to ∂project.

        features: (B, C + 1, n). d_energies: (B, n). slopes: (B, n, A), ρ (1 − ρ).
        """
        d_mixing = torch.bmm(features * d_energies[:, None], slopes)  # (B, C + 1, A)
        self.d_mixing += d_mixing
        return d_mixing[:, -1]

    def past(self, band: Tensor, d_energies: Tensor, slopes: Tensor) -> Tensor:
        """Return ∂past (B, 2, n + K − 1); add to ∂spread.

        ∂past_p[x] = Σ_c Σ_k spread[c, p, k] · ∂f_c[x − k]: one product, then sums over diagonals,
        which are a strided view of the product.
        """
        d_features = torch.bmm(self.projections, slopes.transpose(1, 2))  # (B, C, n)
        d_features *= d_energies[:, None]
        self.d_spread.baddbmm_(d_features, band.transpose(1, 2))
        around = self.width - 1
        products = torch.bmm(self.columns, functional.pad(d_features, (around, around)))
        batch, _, length = products.shape  # (B, 2K, n + 2 (K − 1))
        diagonals = products.as_strided(
            (batch, 2, self.width, length - around),
            (products.stride(0), self.width * length, length - 1, 1),
            around,
        )
        return diagonals.sum(2)

    def weights(self) -> tuple[Tensor, Tensor]:
        """Return ∂spread (C, 2, K) and, without the slope, ∂project (A, C)."""
        d_spread = self.d_spread.sum(0).unflatten(1, (2, -1))
        return d_spread, self.d_mixing[:, :-1].sum(0).T
