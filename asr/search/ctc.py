"""CTC in the search: prefix scores of all next tokens at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.search.contract import Booleans, Floats, Integers
from asr.search.trees import reorder, take
from asr.text.vocabulary import BLANK, EOS

Doubles = NDArray[np.float64]

_BLOCK: Final = 8  # frames that share one scale
_LEAST: Final = -80.0  # lower bound of a frame's log-probability: 8 · 80 nats fit into float64
_IMPOSSIBLE: Final = -1e4  # in place of −inf, so that impossible prefixes can be ranked
_NOTHING: Final = -1e300  # scale of a block of zeros

# Matrix that sums a block of 8: exclusive running sums in columns 0–7, the total in column 8.
_SUMS: Final = np.triu(np.ones((_BLOCK, _BLOCK + 1)), 1)


class _Audio(NamedTuple):
    """The CTC output of B utterances in K blocks of 8 time points; point t precedes frame t.

    probabilities: (B, 8K, V), of each frame, 0 beyond the end. decay: (B, V, K, 8), product of the
    probabilities from the block's first point to each point; growth: its inverse. start:
    (B, V, K), log of the product over all frames before the block. lengths: (B,), frames.
    """

    probabilities: Doubles
    decay: Doubles
    growth: Doubles
    start: Doubles
    lengths: Integers


class _Prefixes(NamedTuple):
    """The forward variables of the F prefixes alive in a batch, utterance by utterance.

    utterance: (F,), ascending.
    symbol, blank: (F, K, 8), probability that the frames before a point emit the prefix and
    end in its last symbol, or in a blank (γ_n and γ_b of Graves), divided by e ** scale.
    scale: (F, K). prefix: (F,), log-probability that the labelling starts with the prefix.
    last: (F,), last symbol; BLANK for the empty prefix.
    """

    utterance: Integers
    symbol: Doubles
    blank: Doubles
    scale: Doubles
    prefix: Doubles
    last: Integers


class CTCState(NamedTuple):
    """The prefixes of a search.

    rows: (B, N), of each prefix among the F, arbitrary for a dead one. scores: (F, V), see
    `Scorer.scores`.
    """

    audio: _Audio
    prefixes: _Prefixes
    rows: Integers
    scores: Doubles


class CTCPrefixScorer:
    """log p(labelling starts with y_1..y_i) − log p(labelling starts with y_1..y_{i−1}).

    For end-of-sentence the labelling is exactly y_1..y_{i−1}. Exact for all tokens at once, without
    a loop over time. A prefix probability is Σ_t φ(t − 1) · p_c(t), one matrix product for all c.
    The forward variables obey γ(t) = p(t) · (γ(t − 1) + φ(t − 1)); divided by Π p they are running
    sums. These are computed within blocks of 8 frames in float64, which cannot overflow, and
    between blocks in the log domain. Log-probabilities of a frame below −80 are set to −80.
    Source: Graves 2008, "Supervised sequence labelling", prefix search decoding; Watanabe et al.
    2017, joint decoding in one pass.
    """

    shares: Final = True
    bound: Final = 0.0

    def __init__(self, log_probs: Floats, lengths: Integers, weight: float) -> None:
        """Make the scorer of one batch.

        log_probs: (B, T', V), blank at id 0. lengths: (B,), frames of each utterance.
        weight: λ, from 0 to 1.
        """
        self.weight = weight
        self._log_probs = log_probs
        self._lengths = np.asarray(lengths, np.int64)

    def start(self, batch: int) -> CTCState:
        """See `Scorer.start`."""
        if batch != len(self._log_probs):
            raise ValueError(
                f"CTC scores of {len(self._log_probs)} utterances, but {batch} to decode"
            )
        audio = _prepared(self._log_probs, self._lengths)
        blank = audio.decay[:, BLANK].copy()  # (B, K, 8): blanks only
        utterance = np.arange(batch)
        prefixes = _Prefixes(
            utterance=utterance,
            symbol=np.zeros_like(blank),
            blank=blank,
            scale=audio.start[:, BLANK],
            prefix=np.zeros(batch),
            last=np.full(batch, BLANK),
        )
        return CTCState(audio, prefixes, utterance[:, None], _scores(audio, prefixes))

    def scores(self, state: CTCState) -> Floats:
        """See `Scorer.scores`."""
        return state.scores[state.rows]

    def advance(
        self, state: CTCState, parents: Integers, tokens: Integers, alive: Booleans
    ) -> CTCState:
        """See `Scorer.advance`."""
        audio, kept = state.audio, reorder(state.rows, parents)[alive]  # (F',)
        old, tokens = take(state.prefixes, kept), tokens[alive]
        old.symbol[old.last == tokens] = 0  # a repeated symbol needs a blank between
        before = old.blank + old.symbol  # φ, (F', K, 8)
        in_symbol = _recurrence(audio, old.utterance, tokens, before, old.scale)
        in_blank = _recurrence(audio, old.utterance, np.full_like(tokens, BLANK), *in_symbol)
        prefixes = _Prefixes(
            old.utterance,
            *_joined(*in_symbol, *in_blank),
            prefix=old.prefix + state.scores[kept, tokens],
            last=tokens,
        )
        rows = np.zeros(parents.shape, np.int64)
        rows[alive] = np.arange(len(kept))
        return CTCState(audio, prefixes, rows, _scores(audio, prefixes))

    def take(self, state: CTCState, rows: Integers) -> CTCState:
        """See `Scorer.take`."""
        return state._replace(rows=state.rows[rows])


def _prepared(log_probs: Floats, lengths: Integers) -> _Audio:
    """Arrange log-probabilities (B, T', V) in blocks."""
    batch, frames, size = log_probs.shape
    blocks = frames // _BLOCK + 1  # at least T' + 1 points
    padded = np.zeros((batch, size, blocks * _BLOCK))
    inside = np.arange(frames) < lengths[:, None]  # (B, T')
    bounded = np.maximum(log_probs.transpose(0, 2, 1), _LEAST, dtype=np.float64)
    padded[..., :frames] = np.where(inside[:, None], bounded, 0.0)
    before = np.cumsum(padded, -1) - padded  # sums of the frames before each point
    before = before.reshape(batch, size, blocks, _BLOCK)
    start = before[..., 0].copy()
    probabilities = np.exp(padded)
    probabilities[..., :frames] *= inside[:, None]
    probabilities[..., frames:] = 0
    decay = np.exp(before - start[..., None])
    by_frame = np.ascontiguousarray(probabilities.transpose(0, 2, 1))
    return _Audio(by_frame, decay, 1 / decay, start, lengths)


def _scores(audio: _Audio, prefixes: _Prefixes) -> Doubles:
    """Return the scores (F, V) of all next tokens."""
    utterance, symbol, blank, scale, prefix, last = prefixes
    number, at = len(prefix), np.arange(len(prefix))
    greatest = np.maximum(scale.max(-1, keepdims=True), _NOTHING)
    factors = np.exp(scale - greatest)[..., None]  # (F, K, 1)
    either = symbol + blank
    both = np.stack([either * factors, blank * factors]).reshape(2, number, -1)
    summed = np.empty((2, number, audio.probabilities.shape[-1]))
    starts = np.searchsorted(utterance, np.arange(len(audio.lengths) + 1))
    for each, (start, stop) in enumerate(pairwise(starts.tolist())):
        if start < stop:
            summed[:, start:stop] = both[:, start:stop] @ audio.probabilities[each]
    with np.errstate(divide="ignore"):
        np.log(summed, out=summed)
        block, place = np.divmod(audio.lengths[utterance], _BLOCK)
        whole = np.log(either[at, block, place])  # (F,)
    summed += greatest
    found = summed[0]  # (F, V)
    found[at, last] = summed[1, at, last]  # repeated: after a blank only
    found[:, EOS] = whole + scale[at, block]
    scores: Doubles = np.clip(found - prefix[:, None], _IMPOSSIBLE, 0.0)
    scores[:, BLANK] = _IMPOSSIBLE
    return scores


def _recurrence(
    audio: _Audio, utterance: Integers, tokens: Integers, added: Doubles, scale: Doubles
) -> tuple[Doubles, Doubles]:
    """Solve g(t + 1) = p(t) · (g(t) + a(t)), g(0) = 0, with p of a token (F,) of each utterance.

    added: a / e ** scale, (F, K, 8); scale (F, K).
    Returns g / e ** its scale, at most 1 in every block, and that scale.
    """
    start = audio.start[utterance, tokens]
    grown = audio.growth[utterance, tokens]
    grown *= added
    sums = (grown.reshape(-1, _BLOCK) @ _SUMS).reshape(*scale.shape, _BLOCK + 1)
    with np.errstate(divide="ignore"):
        totals = np.log(sums[..., -1])  # (F, K)
    totals += scale - start
    carry = np.full_like(totals, -np.inf)  # log of g at the first point of each block
    np.logaddexp.accumulate(totals[..., :-1], axis=-1, out=carry[..., 1:])
    carry += start
    found_scale = np.maximum(np.maximum(carry, scale), _NOTHING)
    found = sums[..., :-1] * np.exp(scale - found_scale)[..., None]
    found += np.exp(carry - found_scale)[..., None]
    found *= audio.decay[utterance, tokens]
    greatest = found.max(-1)
    np.maximum(greatest, np.finfo(np.float64).tiny, out=greatest)
    found /= greatest[..., None]
    return found, found_scale + np.log(greatest)


def _joined(
    symbol: Doubles, symbol_scale: Doubles, blank: Doubles, blank_scale: Doubles
) -> tuple[Doubles, Doubles, Doubles]:
    """Convert both to a common scale."""
    scale = np.maximum(symbol_scale, blank_scale)
    symbol *= np.exp(symbol_scale - scale)[..., None]
    blank *= np.exp(blank_scale - scale)[..., None]
    return symbol, blank, scale
