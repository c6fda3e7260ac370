"""The annotations that a step attends to: all, or those in its window, which are gathered."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from asr.attention.contract import Alignment
from asr.attention.masks import Window


class Span(NamedTuple):
    """Some annotations of each utterance.

    allowed: (B, 1, n) bool. starts: (B, 1), the first one; None: all, so that n is T. positions:
    (B, n) of all n. flat: (B·n,), rows of a tensor (B·T, ·).
    """

    allowed: Tensor
    starts: Tensor | None = None
    positions: Tensor | None = None
    flat: Tensor | None = None

    def row(self, values: Tensor) -> Tensor:
        """Return one number for each annotation: (B, T) → (B, n)."""
        if self.positions is None:
            return values
        return values.gather(1, self.positions)

    def rows(self, values: Tensor, buffer: Tensor) -> Tensor:
        """Return a vector for each annotation, a copy in buffer (B·n, D) if these are not all.

        values: (B, T, D) → (B, n, D).
        """
        if self.flat is None:
            return values
        torch.index_select(values.flatten(0, 1), 0, self.flat, out=buffer)
        return buffer.view(values.size(0), -1, values.size(2))

    def write(self, values: Tensor, row: Tensor) -> None:
        """Write one number for each annotation, (B, n), into row (B, T)."""
        if self.positions is None:
            row.copy_(values)
        else:
            row.scatter_(1, self.positions, values)

    def add_rows(self, values: Tensor, factors: Tensor, total: Tensor) -> None:
        """Add values (B, n, D), each times its factor (B, n), to total (B, T, D)."""
        if self.flat is None:
            total.addcmul_(values, factors[:, :, None])
        else:
            products = (values * factors[:, :, None]).flatten(0, 1)
            total.view(-1, total.size(2)).index_add_(0, self.flat, products)

    def padded(self, past: Tensor, width: int) -> Tensor:
        """Return the past of the annotations and K // 2 neighbours at both ends.

        past: (B, 2, T + K − 1) → (B, 2, n + K − 1). width: K.
        """
        if self.starts is None:
            return past
        return past.gather(2, self._padded_positions(width))

    def add_padded(self, values: Tensor, total: Tensor, width: int) -> None:
        """Add values (B, 2, n + K − 1) to total (B, 2, T + K − 1)."""
        if self.starts is None:
            total += values
        else:
            total.scatter_add_(2, self._padded_positions(width), values)

    def _padded_positions(self, width: int) -> Tensor:
        assert self.starts is not None and self.positions is not None
        count = self.positions.size(1) + width - 1
        places = torch.arange(count, device=self.starts.device)
        return (self.starts + places)[:, None].expand(-1, 2, -1)


class Spans:
    """Chooses the span of each step.

    A hard window without a stride is gathered, if it is at most half of the annotations: all work
    of the step is then proportional to the width of the window. Other windows restrict a span of
    all annotations in `Window.apply`.
    """

    def __init__(self, mask: Tensor, window: Window | None) -> None:
        """mask: (B, T)."""
        batch, length = mask.shape
        self.all = Span(mask[:, None])
        self.window = window
        self.width = 0 if window is None else window.back + 1 + window.ahead
        self.gathers = (
            window is not None
            and not window.soft
            and not window.stride
            and 2 * self.width <= length
        )
        self._places = torch.arange(self.width, device=mask.device)
        self._rows = torch.arange(batch, device=mask.device)[:, None] * length
        # With padding alone, an utterance has an allowed position in every window.
        self._has_gaps = self.gathers and bool((mask[:, 1:] > mask[:, :-1]).any())
        self._has_any = mask.any(1) if self._has_gaps else None

    def choose(self, weights: Tensor) -> Span:
        """Return the span of the step after the one with these weights (B, T)."""
        if not self.gathers:
            return self.all
        assert self.window is not None
        centres = self.window.centres(weights)[:, None]  # (B, 1)
        last = weights.size(1) - self.width
        starts = (centres - self.window.back).ceil().clamp_(0, last).long()
        span = self.at(starts)
        assert span.positions is not None
        distances = span.positions - centres
        inside = (distances >= -self.window.back) & (distances <= self.window.ahead)
        inside &= span.allowed[:, 0]
        if self._has_any is not None and bool((self._has_any & ~inside.any(1)).any()):
            return self.all
        return span._replace(allowed=inside[:, None])

    def at(self, starts: Tensor) -> Span:
        """Return the span of a window that begins at `starts` (B, 1)."""
        positions = starts + self._places
        allowed = self.all.allowed[:, 0].gather(1, positions)[:, None]
        return Span(allowed, starts, positions, (positions + self._rows).flatten())

    def restrict(self, energies: Tensor, span: Span, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the window to energies (B, 1, n) of a span; weights: (B, T), the last ones."""
        if self.window is None or span.positions is not None:
            return energies, span.allowed
        past = weights[:, None]
        return self.window.apply(energies, span.allowed, Alignment(past, past))
