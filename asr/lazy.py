"""Values that are made on first use, once, also by several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Lazy(Generic[Value]):
    """A value that is made on first use and then kept; threads wait for the first one."""

    def __init__(self, make: Callable[[], Value]) -> None:
        """Take the function that makes the value; if it raises, the next use tries again."""
        self._make = make
        self._made: list[Value] = []
        self._lock = threading.Lock()

    def __call__(self) -> Value:
        """Return the value."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]
