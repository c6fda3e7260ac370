"""Beam search over a batch, with one memory for all hypotheses of an utterance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.errors import UserError
from asr.search.choice import append, choose
from asr.search.contract import Integers, Scorer, ScorerState, SearchDecoder, State
from asr.search.guard import DEFAULT_GUARD, Counts, GuardState
from asr.search.hypothesis import History, Hypothesis, Step, StepReport
from asr.search.limits import check_limits
from asr.search.options import BeamSettings
from asr.search.pool import Pool
from asr.search.trees import reorder, take
from asr.text.vocabulary import BLANK, EOS

Doubles = NDArray[np.float64]

_LEAST = -1e4  # in place of a log-probability of −inf
_DONE_SHARE = 1 / 8  # finished utterances are removed at this share of the rows


class _Live(NamedTuple, Generic[State]):
    """The utterances that are still being decoded: b of them, n hypotheses of each."""

    decoder: SearchDecoder[State]
    state: State
    tokens: Integers  # (b, n), last token of each hypothesis
    recent: Integers  # (b, n, settings.recombine), the last tokens
    totals: Doubles  # (b, n), sums of scores; −inf for a dead hypothesis
    guard: GuardState
    scorers: tuple[ScorerState, ...]


class _Columns(NamedTuple):
    """The fields of `StepReport` for all utterances. ends, end_totals: (b, n). Others: (b, m)."""

    ends: NDArray[np.float32]
    end_totals: Doubles
    tokens: Integers
    parents: Integers
    totals: Doubles
    log_probabilities: NDArray[np.float32]
    excess: Counts


def beam_search(
    decoder: SearchDecoder[State],
    limits: Integers,
    settings: BeamSettings = BeamSettings(),
    scorers: Sequence[Scorer] = (),
    best: int = 1,
) -> list[list[Hypothesis]]:
    """Decode each utterance to its `best` hypotheses, best first (fewer if fewer ended).

    limits: (B,), largest number of tokens of each text, end-of-sentence not counted. At the limit
        every hypothesis ends, with "eos" if it would have ended there, else with "length".
    scorers: see `asr.search.contract.Scorer`; made for this batch, utterances in the same order.

    An utterance is finished when no live hypothesis can still rank among its best. Finished
    utterances are removed from the batch once they are an eighth of it. Hypotheses stopped by the
    guard are returned only if too few others ended.

    Raises:
        UserError: a weight of a scorer is negative, or the weights leave the decoder a negative
            one.
        ValueError: limits of the wrong shape, or negative.
    """
    share = _decoder_share(scorers)
    gain = sum(scorer.weight * scorer.bound for scorer in scorers)
    caps = check_limits(limits, decoder.utterances)
    pools = [Pool(settings, cap, best, gain) for cap in caps]
    history, utterances = History(), list(range(len(caps)))  # utterance of each row
    search = _Search(settings, tuple(scorers), share)
    live = search.start(decoder)
    step = 0
    while utterances:
        alive = live.totals > -np.inf
        log_probs, weights, state = live.decoder.step(live.tokens, live.state, alive)
        live, columns = search.extend(live._replace(state=state), log_probs, weights)
        lists = (column.tolist() for column in columns)
        reports = [StepReport(*parts) for parts in zip(*lists, strict=True)]
        history.add(Step({each: row for row, each in enumerate(utterances)}, weights, reports))
        for row, (utterance, report) in enumerate(zip(utterances, reports, strict=True)):
            pools[utterance].add(step, report)
            if pools[utterance].done:
                live.totals[row] = -np.inf
        left = [row for row, utterance in enumerate(utterances) if not pools[utterance].done]
        if not left:
            break
        live = search.advance(live, columns)
        if len(left) <= (1 - _DONE_SHARE) * len(utterances):
            live = search.take(live, np.array(left))
            utterances = [utterances[row] for row in left]
        step += 1
    return [
        [history.hypothesis(utterance, ending) for ending in pool.best()]
        for utterance, pool in enumerate(pools)
    ]


def _decoder_share(scorers: Sequence[Scorer]) -> float:
    """Return the weight of the decoder: 1 minus the weights of the scorers that share it."""
    share = 1 - sum(scorer.weight for scorer in scorers if scorer.shares)
    if share < 0 or any(scorer.weight < 0 for scorer in scorers):
        raise UserError(
            f"scorer weights {[scorer.weight for scorer in scorers]}: none may be negative, and "
            "those that share with the decoder may sum to 1 at most"
        )
    return share


@dataclass(frozen=True)
class _Search:
    """What is constant during a search; share: weight of the decoder."""

    settings: BeamSettings
    scorers: tuple[Scorer, ...]
    share: float

    def start(self, decoder: SearchDecoder[State]) -> _Live[State]:
        """Return the empty hypothesis of each utterance."""
        batch = decoder.utterances
        return _Live(
            decoder=decoder,
            state=decoder.start(),
            tokens=np.full((batch, 1), EOS),
            recent=np.full((batch, 1, self.settings.recombine), EOS),
            totals=np.zeros((batch, 1)),
            guard=(self.settings.guard or DEFAULT_GUARD).start(batch),
            scorers=tuple(scorer.start(batch) for scorer in self.scorers),
        )

    def extend(
        self,
        live: _Live[State],
        log_probs: NDArray[np.float32],
        weights: NDArray[np.float32],
    ) -> tuple[_Live[State], _Columns]:
        """Choose the next hypotheses: log_probs (b, n, V), weights (b, n, T).

        In the result the states of decoder and scorers are still those of the parents.
        """
        log_probs[..., BLANK] = -np.inf  # the blank is no token; not renormalised
        sums = self._sums(log_probs, live)  # (b, n, V)
        end_totals = sums[..., EOS].copy()  # (b, n)
        self._forbid_early_ends(sums, log_probs)
        totals, parents, tokens = choose(sums, live.recent, self.settings)  # (b, m)
        rows = np.arange(len(tokens))[:, None]
        guard = live.guard
        if self.settings.guard is None:
            excess = np.zeros(tokens.shape, np.int32)
        else:
            peaks = weights.argmax(-1)
            if _reorders(log_probs.shape[1], parents):
                peaks, guard = peaks[rows, parents], reorder(guard, parents)
            guard, excess = self.settings.guard.advance(guard, tokens, peaks)
        columns = _Columns(
            ends=log_probs[..., EOS],
            end_totals=end_totals,
            tokens=tokens,
            parents=parents,
            totals=totals,
            log_probabilities=log_probs[rows, parents, tokens],
            excess=excess,
        )
        extended = live._replace(
            tokens=tokens,
            recent=append(live.recent, parents, tokens),
            totals=np.where((tokens == EOS) | (excess > 0), -np.inf, totals),
            guard=guard,
        )
        return extended, columns

    def advance(self, live: _Live[State], columns: _Columns) -> _Live[State]:
        """Update the states of decoder and scorers from the parents to the chosen hypotheses."""
        alive = live.totals > -np.inf
        state, parents = live.state, columns.parents
        if _reorders(columns.ends.shape[1], parents):
            state = live.decoder.select(state, parents)
        scorers = tuple(
            scorer.advance(each, parents, live.tokens, alive)
            for scorer, each in zip(self.scorers, live.scorers, strict=True)
        )
        return live._replace(state=state, scorers=scorers)

    def take(self, live: _Live[State], rows: Integers) -> _Live[State]:
        """Keep the utterances rows (b',)."""
        decoder, state = live.decoder.take(live.state, rows)
        scorers = tuple(
            scorer.take(each, rows) for scorer, each in zip(self.scorers, live.scorers, strict=True)
        )
        arrays = take((live.tokens, live.recent, live.totals, live.guard), rows)
        return _Live(decoder, state, *arrays, scorers)

    def _sums(self, log_probs: NDArray[np.float32], live: _Live[State]) -> Doubles:
        """Return the sums of scores (b, n, V) of each hypothesis with each next token."""
        # A decoder may assign probability 0 to a token; a finite bound keeps all sums comparable.
        sums = np.maximum(log_probs, _LEAST, dtype=np.float64)
        if self.share != 1:
            sums *= self.share
        for scorer, state in zip(self.scorers, live.scorers, strict=True):
            sums += scorer.weight * np.maximum(scorer.scores(state), _LEAST)
        sums += live.totals[..., None]
        sums[..., BLANK] = -np.inf
        return sums

    def _forbid_early_ends(self, sums: Doubles, log_probs: NDArray[np.float32]) -> None:
        """Set `sums` of end-of-sentence to −inf where it is below `end_threshold`."""
        threshold = self.settings.end_threshold
        if threshold is None:
            return
        ends = log_probs[..., EOS].copy()
        log_probs[..., EOS] = -np.inf
        is_early = ends < threshold * log_probs.max(-1)  # (b, n)
        log_probs[..., EOS] = ends
        sums[..., EOS][is_early] = -np.inf


def _reorders(count: int, parents: Integers) -> bool:
    """Return whether parents (b, m) may change the order or number of `count` hypotheses."""
    return count > 1 or parents.shape[1] > 1
