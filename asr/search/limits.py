"""How long a text can be for so much audio: the most steps that a search may take."""

from __future__ import annotations

from torch import Tensor

CHARACTERS_PER_SECOND = 22.0  # hardly anyone reads faster
SPARE_CHARACTERS = 5  # for the very short, where a second is a coarse measure


def step_limits(seconds: Tensor) -> Tensor:
    """Return the most characters (B,) long that utterances of so many seconds (B,) may have."""
    return (seconds * CHARACTERS_PER_SECOND).ceil().long() + SPARE_CHARACTERS
