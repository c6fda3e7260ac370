"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from asr.search.beam import beam_search
from asr.search.contract import Integers, SearchDecoder, State
from asr.search.guard import DEFAULT_GUARD, RepeatGuard
from asr.search.hypothesis import Hypothesis
from asr.search.options import BeamSettings


def greedy(
    decoder: SearchDecoder[State], limits: Integers, guard: RepeatGuard | None = DEFAULT_GUARD
) -> list[Hypothesis]:
    """Decode each utterance by the most probable token at every step: a beam of one.

    limits: (B,), largest number of tokens of each text, end-of-sentence not counted. At the limit
        a text ends with "eos" if the decoder would end it there, else with "length".
    guard: stops repetitions; None lets them run to the limit.

    Raises:
        ValueError: limits of the wrong shape, or negative.
    """
    settings = BeamSettings(size=1, end_threshold=None, guard=guard)
    return [best for (best,) in beam_search(decoder, limits, settings)]
