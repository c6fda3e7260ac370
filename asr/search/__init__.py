"""From a prepared memory to text: greedy search, beam search, and what else may score."""

from asr.search.beam import beam_search
from asr.search.greedy import ctc_greedy, greedy
from asr.search.guard import RepeatGuard
from asr.search.hypothesis import Hypothesis
from asr.search.options import BeamSettings
from asr.search.scorers import CTCPrefixScorer, LanguageModel, LanguageModelScorer, Scorer

__all__ = [
    "BeamSettings",
    "CTCPrefixScorer",
    "Hypothesis",
    "LanguageModel",
    "LanguageModelScorer",
    "RepeatGuard",
    "Scorer",
    "beam_search",
    "ctc_greedy",
    "greedy",
]
