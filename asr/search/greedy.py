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
    """Decode each utterance by its most probable token at every step: a beam of one.

    limits: (B,), most tokens of each text, end-of-sentence not counted. At its limit a text ends
        by "eos" if the decoder would end it there, else by "length".
    guard: stops a text that repeats itself; None lets it go on to its limit.

    Raises:
        ValueError: limits of the wrong shape, or negative.
    """
    settings = BeamSettings(size=1, end_threshold=None, guard=guard)
    return [best for (best,) in beam_search(decoder, limits, settings)]
