"""Decoding by CTC alone: the most probable path."""

from __future__ import annotations

import numpy as np

from asr.search.contract import Floats, Integers
from asr.text.vocabulary import BLANK


def ctc_greedy(log_probs: Floats, lengths: Integers) -> list[list[int]]:
    """Return the most probable CTC path of each utterance: repeats merged, blanks removed.

    log_probs: (B, T', V). lengths: (B,), frames of each utterance. Source: Graves et al. 2006,
    "best path decoding".
    """
    best = log_probs.argmax(-1)  # (B, T')
    kept = best != BLANK
    kept[:, 1:] &= best[:, 1:] != best[:, :-1]
    kept &= np.arange(best.shape[1]) < np.asarray(lengths)[:, None]
    return [row[keep].tolist() for row, keep in zip(best, kept, strict=True)]
