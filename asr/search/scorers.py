"""What else may score a hypothesis during beam search: CTC, language models, your own.

The beam ranks by the sum over steps of

    (1 − Σ w_i) · log p_decoder(y) + Σ w_i · score_i(y) + Σ w_k · score_k(y)

where i runs over the scorers that share (CTC: they tell what the decoder tells, from the same
sound) and k over those that come on top (language models: they have not heard the sound).
With one of each it is the field's (1 − λ) · attention + λ · CTC + β · LM
(Watanabe et al. 2017, "Hybrid CTC/attention architecture for end-to-end speech recognition").
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from asr.search.hypothesis import reorder
from asr.text.vocabulary import BLANK, EOS

# Nested (Named)tuples of tensors, each with the utterance as first dimension: the search drops
# utterances that have ended out of it. All that a scorer knows of an utterance is in its state.
ScorerState: TypeAlias = Any


class Scorer(Protocol):
    """Something that scores each next token; every score is a log-probability, so never above 0.

    The search relies on that to tell when no live hypothesis can win any more.

    weight: factor of the scores, not negative.
    shares: True if the weight is taken from the decoder's, False if it comes on top.
    """

    @property
    def weight(self) -> float: ...

    @property
    def shares(self) -> bool: ...

    def start(self, batch: int) -> ScorerState:
        """Return the state before the first token, with N = 1 hypothesis an utterance."""
        ...

    def scores(self, state: ScorerState) -> Tensor:
        """Score all next tokens: (B, N, V), in nats; that of id EOS is for ending here."""
        ...

    def advance(self, state: ScorerState, parents: Tensor, tokens: Tensor) -> ScorerState:
        """Take the m-th new hypothesis: tokens[b, m] after old hypothesis parents[b, m]; (B, M).

        Hypotheses that have died are among them, with any token.
        """
        ...


class LanguageModel(Protocol):
    """What `LanguageModelScorer` asks of a language model; its states are as a scorer's."""

    def start(self, batch: int) -> ScorerState:
        """Return the state at the start of a text, with N = 1 text an utterance."""
        ...

    def log_probs(self, state: ScorerState) -> Tensor:
        """Return the log-probabilities (B, N, V) of the next token, end-of-sentence at id EOS."""
        ...

    def advance(self, state: ScorerState, parents: Tensor, tokens: Tensor) -> ScorerState:
        """Reorder by parents (B, M), then append tokens (B, M)."""
        ...


class LanguageModelScorer:
    """A language model on top of the decoder ("shallow fusion", Gulcehre et al. 2015)."""

    shares = False

    def __init__(self, model: LanguageModel, weight: float) -> None:
        self.model = model
        self.weight = weight

    def start(self, batch: int) -> ScorerState:
        """See `Scorer.start`."""
        return self.model.start(batch)

    def scores(self, state: ScorerState) -> Tensor:
        """See `Scorer.scores`."""
        return self.model.log_probs(state)

    def advance(self, state: ScorerState, parents: Tensor, tokens: Tensor) -> ScorerState:
        """See `Scorer.advance`."""
        return self.model.advance(state, parents, tokens)


class CTCState(NamedTuple):
    """CTC's view of N prefixes of each of B utterances, at L = T' + 1 moments, rounded up.

    Moment t lies before frame t. All floats are float64.
    probabilities: (B, V, L) of each frame, 0 beyond an utterance's end. cumulative: (B, V, L),
        sums of log-probabilities before each moment. lengths: (B,), frames. These three stay.
    in_symbol, in_blank: (B, N, L), log-probability that the frames before a moment spell the
        prefix and end in its last symbol, or in a blank: Graves's γ_n, γ_b.
    prefix: (B, N), log-probability that the labelling starts with the prefix.
    last: (B, N), last symbol; BLANK for the empty prefix.
    """

    probabilities: Tensor
    cumulative: Tensor
    lengths: Tensor
    in_symbol: Tensor
    in_blank: Tensor
    prefix: Tensor
    last: Tensor


class CTCPrefixScorer:
    """log p(labelling starts with y_1..y_i) − log p(… y_1..y_{i−1}); for the end, the whole of it.

    Exact for all tokens at once, without a loop over time. A prefix probability is
    Σ_t φ(t − 1) · p_c(t), one product of matrices for every c. The forward variables obey
    γ(t) = p(t) · (γ(t − 1) + φ(t − 1)); divided by Π p they are running sums, in float64. A
    frame's log-probabilities below −80 count as −80.
    Source: Graves 2008, "Supervised sequence labelling", prefix search decoding; Watanabe et al.
    2017, joint decoding in one pass.
    """

    shares = True

    def __init__(self, log_probs: Tensor, lengths: Tensor, weight: float) -> None:
        """Make the scorer of one batch.

        log_probs: (B, T', V), blank at id 0. lengths: (B,), frames of each utterance.
        weight: λ, from 0 to 1.
        """
        self.weight = weight
        self._log_probs = log_probs
        self._lengths = lengths.to(log_probs.device)

    def start(self, batch: int) -> CTCState:
        """See `Scorer.start`."""
        if batch != len(self._log_probs):
            raise ValueError(f"{len(self._log_probs)} utterances of CTC scores, {batch} to decode")
        frames = torch.arange(self._log_probs.size(1), device=self._lengths.device)
        inside = (frames < self._lengths[:, None])[:, None]  # (B, 1, T')
        log_probs = self._log_probs.double().transpose(1, 2).clamp_min(_LEAST)  # (B, V, T')
        log_probs = torch.where(inside, log_probs, 0.0)
        more = _FRAMES - len(frames) % _FRAMES  # 1 at least
        cumulative = functional.pad(log_probs, (1, more - 1)).cumsum_(-1)  # (B, V, L)
        blanks = cumulative[:, BLANK, None]  # (B, 1, L): nothing but blanks
        zeros = blanks.new_zeros(batch, 1)
        return CTCState(
            probabilities=functional.pad(log_probs.exp_() * inside, (0, more)),
            cumulative=cumulative,
            lengths=self._lengths,
            in_symbol=torch.full_like(blanks, -torch.inf),
            in_blank=blanks,
            prefix=zeros,
            last=torch.full_like(zeros, BLANK, dtype=torch.long),
        )

    def scores(self, state: CTCState) -> Tensor:
        """See `Scorer.scores`."""
        spelt = torch.logaddexp(state.in_symbol, state.in_blank)  # (B, N, L)
        scaled, scale = _scaled(spelt)
        summed = (scaled @ state.probabilities.mT).log_() + scale  # (B, N, V)
        # A symbol said twice needs a blank between.
        again = _log_sum(state.in_blank, reorder(state.probabilities, state.last))
        summed.scatter_(-1, state.last[..., None], again[..., None])
        index = state.lengths[:, None, None].expand(-1, spelt.size(1), -1)
        summed[..., EOS] = spelt.gather(-1, index)[..., 0]
        scores = (summed - state.prefix[..., None]).clamp_(_IMPOSSIBLE, 0.0)
        scores[..., BLANK] = _IMPOSSIBLE
        return scores

    def advance(self, state: CTCState, parents: Tensor, tokens: Tensor) -> CTCState:
        """See `Scorer.advance`."""
        before = reorder(state.in_symbol, parents)  # (B, M, L)
        again = reorder(state.last, parents) == tokens
        before.masked_fill_(again[..., None], -torch.inf)
        torch.logaddexp(before, reorder(state.in_blank, parents), out=before)
        prefix = _log_sum(before, reorder(state.probabilities, tokens))
        in_symbol = _recurrence(before, reorder(state.cumulative, tokens))
        in_blank = _recurrence(in_symbol, state.cumulative[:, BLANK, None])
        least = reorder(state.prefix, parents) + _IMPOSSIBLE
        return state._replace(
            in_symbol=in_symbol,
            in_blank=in_blank,
            prefix=torch.maximum(prefix, least),
            last=tokens,
        )


_LEAST = -80.0  # least log-probability of a frame, so that no sum runs out of a float's range
_FRAMES = 8  # frames summed outside the log domain: 8 · 80 nats stay within float64
_IMPOSSIBLE = -1e4  # in place of −inf, so that a beam of impossible prefixes still has an order


def _exp(values: Tensor) -> Tensor:
    """e ** values in place, 0 below e ** −700, where float64 gets coarse and many times slower."""
    return values.masked_fill_(values < -700, -torch.inf).exp_()


def _scaled(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """exp(log_values − scale) and scale, so that the greatest along the last axis is 1."""
    scale = log_values.amax(-1, keepdim=True).clamp_min(-1e300)  # all −inf gives all 0
    return _exp(log_values - scale), scale


def _log_sum(log_values: Tensor, factors: Tensor) -> Tensor:
    """log Σ_t exp(log_values) · factors over the last axis: (B, N, L), (B, N, L) → (B, N)."""
    scaled, scale = _scaled(log_values)
    return scaled.mul_(factors).sum(-1).log_() + scale[..., 0]


def _recurrence(added: Tensor, cumulative: Tensor) -> Tensor:
    """Solve g(t + 1) = p(t) · (g(t) + a(t)), g(0) = 0, in the log domain.

    added: log a, (B, N, L). cumulative: log Π p before each moment, (B, N | 1, L).
    Returns log g, (B, N, L). It works in place, since fresh memory costs more than the sums.
    """
    solved = torch.full_like(added, -torch.inf)
    sums = _running_log_sums(added - cumulative)
    torch.add(sums[..., :-1], cumulative[..., 1:], out=solved[..., 1:])
    return solved


def _running_log_sums(values: Tensor) -> Tensor:
    """log Σ_{s ≤ t} exp(values(s)) along the last axis, in place: as `torch.logcumsumexp`.

    Twice as fast, since only one value in `_FRAMES` goes through the log domain. The scale
    never falls, so what is lost beside it is lost for good; and where it rises by more than
    float64 holds within a block, the values before have become too small to matter.
    """
    blocks = values.unflatten(-1, (-1, _FRAMES))  # (B, N, L / 8, 8)
    scale = blocks.amax(-1).clamp_min_(-1e300).cummax(-1).values  # (B, N, L / 8)
    within = _exp(blocks.sub_(scale[..., None])).cumsum_(-1)
    ends = torch.logcumsumexp(within[..., -1].log() + scale, -1)
    before = functional.pad(ends[..., :-1], (1, 0), value=-torch.inf)
    within.add_(_exp(before - scale)[..., None]).log_().add_(scale[..., None])
    return within.flatten(-2)
