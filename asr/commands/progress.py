"""A progress bar in seconds of audio."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from tqdm import tqdm


class Bar:
    """A progress bar on stderr; nothing is shown, or imported for it, if that is no terminal."""

    def __init__(self, seconds: float | None) -> None:
        """Show a bar; seconds: the total, None if it is not known."""
        self._shown: tqdm[NoReturn] | None = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._shown = tqdm(total=seconds, unit="s", unit_scale=True)

    def advance(self, seconds: float) -> None:
        """Advance by a number, at most to the total.

        Lengths that files state are rounded, and tqdm prints a warning beyond its total.
        """
        if self._shown is not None:
            left = self._shown.total - self._shown.n if self._shown.total else seconds
            self._shown.update(max(0.0, min(seconds, left)))

    def clear(self) -> None:
        """Clear the line, for a message on stderr; the bar comes again with the next advance."""
        if self._shown is not None:
            self._shown.clear()

    def __enter__(self) -> Self:
        """Return the bar."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the bar as it is, on a line of its own."""
        if self._shown is not None:
            self._shown.close()
