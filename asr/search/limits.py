"""The length limit of a text, from the duration of its audio or the length of its source."""

from __future__ import annotations

import numpy as np

from asr.search.contract import Floats, Integers

CHARACTERS_PER_SECOND = 22.0  # faster than nearly all speech
SPARE_CHARACTERS = 5  # for very short audio


def step_limits(seconds: Floats) -> Integers:
    """Return the largest number of characters (B,) for utterances of seconds (B,)."""
    limits: Integers = np.ceil(seconds * CHARACTERS_PER_SECOND).astype(np.int64) + SPARE_CHARACTERS
    return limits


def most_target_tokens(lengths: Integers) -> Integers:
    """Return the largest number of tokens of a translation: source lengths (B,) → (B,).

    It stops decoders that emit no end-of-sentence, and is far above real translations.
    """
    return 2 * lengths + 10


def check_limits(limits: Integers, utterances: int) -> list[int]:
    """Return the limits (B,) as a list.

    Raises:
        ValueError: not one limit per utterance, or a negative limit.
    """
    limits = np.asarray(limits)
    if limits.shape != (utterances,):
        raise ValueError(f"limits must be ({utterances},), one per utterance; got {limits.shape}")
    numbers = [int(limit) for limit in limits]
    if any(limit < 0 for limit in numbers):
        raise ValueError(f"limits must not be negative, got {min(numbers)}")
    return numbers
