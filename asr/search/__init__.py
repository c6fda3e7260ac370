"""Greedy search, beam search, and the scorers that a beam search can add."""

from asr.search.beam import beam_search
from asr.search.contract import LanguageModel, Scorer, SearchDecoder, Stepped
from asr.search.ctc import CTCPrefixScorer
from asr.search.ctc_path import ctc_greedy
from asr.search.greedy import greedy
from asr.search.guard import RepeatGuard
from asr.search.hypothesis import Hypothesis
from asr.search.internal_model import InternalModelScorer
from asr.search.language_model import LanguageModelScorer
from asr.search.limits import step_limits
from asr.search.options import BeamSettings
from asr.search.word_penalty import WordPenalty

__all__ = [
    "BeamSettings",
    "CTCPrefixScorer",
    "Hypothesis",
    "InternalModelScorer",
    "LanguageModel",
    "LanguageModelScorer",
    "RepeatGuard",
    "Scorer",
    "SearchDecoder",
    "Stepped",
    "WordPenalty",
    "beam_search",
    "ctc_greedy",
    "greedy",
    "step_limits",
]
