"""The attention window of known weights, in NumPy; see `asr.attention.masks.Window`."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class WindowSettings(Protocol):
    """The window of `asr.models.settings.AttentionSettings`."""

    @property
    def window_back(self) -> int: ...

    @property
    def window_ahead(self) -> int: ...

    @property
    def window_centre(self) -> str: ...


def distances(weights: Array, centre: str) -> Array:
    """Return the distance (…, T) of all positions from the centre of weights (…, T).

    centre: "expectation" or "median"; position 0 if all weights are 0.
    """
    places = np.arange(weights.shape[-1], dtype=np.float32)
    if centre == "expectation":
        found = weights @ places
    else:
        half = weights.sum(-1, keepdims=True) / 2
        found = (weights.cumsum(-1) < half).sum(-1).astype(np.float32)
    distance: Array = places - found[..., None]
    return distance


def region(weights: Array, settings: WindowSettings) -> NDArray[np.bool_]:
    """Return the window of each step of a text: weights (U, T) of all steps → (U, T).

    The region of a step is the window around the centre of the previous step, without the stride.
    """
    before = np.concatenate([np.zeros_like(weights[:1]), weights[:-1]])
    distance = distances(before, settings.window_centre)
    inside: NDArray[np.bool_] = (distance >= -settings.window_back) & (
        distance <= settings.window_ahead
    )
    return inside


def check_window(settings: WindowSettings) -> None:
    """Refuse a window that extends to one side only.

    Raises:
        ValueError: with both reaches.
    """
    back, ahead = settings.window_back, settings.window_ahead
    if bool(back) != bool(ahead):
        raise ValueError(
            f"a window must reach at least 1 annotation both ways, got back={back}, ahead={ahead}"
        )
