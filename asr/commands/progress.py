"""Progress bars that never pass their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tqdm import tqdm


def advancing(bar: tqdm[NoReturn]) -> Callable[[float], None]:
    """Return a function that advances a bar by a number, at most to its total if that is known.

    Lengths that files state are rounded, and tqdm prints a warning beyond its total.
    """

    def advance(number: float) -> None:
        left = bar.total - bar.n if bar.total else number
        bar.update(max(0.0, min(number, left)))

    return advance
