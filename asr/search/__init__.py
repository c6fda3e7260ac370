"""From a prepared memory to text: greedy search, beam search, and what else may score."""

from asr.search.beam import beam_search
from asr.search.greedy import ctc_greedy, greedy
from asr.search.guard import RepeatGuard
from asr.search.hypothesis import Hypothesis
from asr.search.ngram import NgramModel
from asr.search.scorers import CTCPrefixScorer, LanguageModel, LanguageModelScorer, Scorer
from asr.search.settings import BeamSettings

__all__ = [
    "BeamSettings",
    "CTCPrefixScorer",
    "Hypothesis",
    "LanguageModel",
    "LanguageModelScorer",
    "NgramModel",
    "RepeatGuard",
    "Scorer",
    "beam_search",
    "ctc_greedy",
    "greedy",
]
