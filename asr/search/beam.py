"""Beam search over a batch, with one memory for all hypotheses of an utterance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from asr.errors import UserError
from asr.search.contract import Memory, SearchDecoder, State
from asr.search.guard import DEFAULT_GUARD, GuardState
from asr.search.hypothesis import (
    History,
    Hypothesis,
    Step,
    check_limits,
    next_log_probabilities,
    reorder,
    should_thin,
    take,
)
from asr.search.options import BeamSettings
from asr.search.pool import Pool, StepReport
from asr.search.scorers import Scorer, ScorerState
from asr.text.vocabulary import BLANK, EOS


class _Live(NamedTuple, Generic[Memory, State]):
    """The utterances that are still being decoded: b of them, n hypotheses of each."""

    memory: Memory
    state: State
    tokens: Tensor  # (b, n), the last ones
    recent: Tensor  # (b, n, settings.recombine), the last so many
    totals: Tensor  # (b, n) float64, sums of scores; −inf for a dead hypothesis
    watch: GuardState
    scorers: tuple[ScorerState, ...]


@torch.no_grad()
def beam_search(
    decoder: SearchDecoder[Memory, State],
    memory: Memory,
    limits: Tensor,
    settings: BeamSettings = BeamSettings(),
    scorers: Sequence[Scorer] = (),
    best: int = 1,
) -> list[list[Hypothesis]]:
    """Decode each utterance to its `best` hypotheses, best first (fewer if fewer ended).

    limits: (B,) long, most tokens of each text, end-of-sentence not counted. Where it is reached
        every hypothesis ends: by "eos" if it would have ended there, else by "length".
    scorers: see `asr.search.scorers`; made for this batch, in its order.

    An utterance is done when no live hypothesis can come among its best any more; those done are
    taken out of the batch once they are an eighth of it. Each step sends one small tensor and a
    number to the host. Hypotheses stopped by the guard are given only where too few others ended.

    Raises:
        UserError: weights of the scorers that leave the decoder less than nothing.
        ValueError: limits of the wrong shape, or negative.
    """
    share = _decoder_share(scorers)
    caps = check_limits(limits, len(memory.mask))
    pools = [Pool(settings, cap, best) for cap in caps]
    history = History()
    utterances = list(range(len(caps)))  # of the rows
    rows = {utterance: row for row, utterance in enumerate(utterances)}
    live = _start(decoder, memory, settings, scorers)
    step = 0
    while not all(pool.done for pool in pools):
        live, weights, reports = _step(decoder, live, settings, scorers, share)
        history.add(
            Step(
                rows=rows,
                weights=weights,
                ends=[report.ends for report in reports],
                parents=[report.parents for report in reports],
                tokens=[report.tokens for report in reports],
                log_probabilities=[report.log_probabilities for report in reports],
            )
        )
        for utterance, report in zip(utterances, reports, strict=True):
            pools[utterance].add(step, report)
        left = [row for row, utterance in enumerate(utterances) if not pools[utterance].done]
        if should_thin(len(left), len(utterances)):
            live = take(live, torch.tensor(left, device=live.tokens.device))
            utterances = [utterances[row] for row in left]
            rows = {utterance: row for row, utterance in enumerate(utterances)}
        step += 1
    return [
        [history.hypothesis(utterance, ending) for ending in pool.best()]
        for utterance, pool in enumerate(pools)
    ]


def _decoder_share(scorers: Sequence[Scorer]) -> float:
    """Weight of the decoder: what the scorers that share with it leave."""
    share = 1 - sum(scorer.weight for scorer in scorers if scorer.shares)
    if share < 0 or any(scorer.weight < 0 for scorer in scorers):
        raise UserError(
            f"scorer weights {[scorer.weight for scorer in scorers]}: none may be negative, and "
            "those that share with the decoder may sum to 1 at most"
        )
    return share


def _start(
    decoder: SearchDecoder[Memory, State],
    memory: Memory,
    settings: BeamSettings,
    scorers: Sequence[Scorer],
) -> _Live[Memory, State]:
    batch, device = len(memory.mask), memory.values.device
    return _Live(
        memory=memory,
        state=decoder.start(memory),
        tokens=torch.full((batch, 1), EOS, device=device),
        totals=torch.zeros(batch, 1, dtype=torch.float64, device=device),
        recent=torch.full((batch, 1, settings.recombine), EOS, device=device),
        watch=(settings.guard or DEFAULT_GUARD).start(batch, device),
        scorers=tuple(scorer.start(batch) for scorer in scorers),
    )


def _step(
    decoder: SearchDecoder[Memory, State],
    live: _Live[Memory, State],
    settings: BeamSettings,
    scorers: Sequence[Scorer],
    share: float,
) -> tuple[_Live[Memory, State], Tensor, list[StepReport]]:
    """One step of all hypotheses: what lives on, weights (b, n, T), reports per utterance."""
    logits, state = decoder.step(live.tokens, live.state, live.memory)
    log_probabilities = next_log_probabilities(logits)  # (b, n, V)
    sums = _sums(log_probabilities, live, scorers, share)  # (b, n, V)
    end_totals = sums[..., EOS].clone()  # (b, n)
    _bar_endings(sums, log_probabilities, settings.end_threshold)
    totals, parents, tokens = _choose(sums, live.recent, settings)  # (b, m)
    weights, state = state.alignment.weights, state.select(parents)
    watch, excess = live.watch, torch.zeros_like(tokens)
    if settings.guard is not None:
        watch = reorder(live.watch, parents)
        watch, excess = settings.guard.advance(watch, tokens, state.alignment.weights)
    survivors = _Live(
        memory=live.memory,
        state=state,
        tokens=tokens,
        recent=_recent(live.recent, parents, tokens),
        totals=totals.masked_fill((tokens == EOS) | (excess > 0), -torch.inf),
        watch=watch,
        scorers=tuple(
            scorer.advance(each, parents, tokens)
            for scorer, each in zip(scorers, live.scorers, strict=True)
        ),
    )
    chosen = log_probabilities.flatten(1).gather(1, parents * log_probabilities.size(-1) + tokens)
    ends = log_probabilities[..., EOS]
    columns = [ends, end_totals, tokens, parents, totals, chosen, excess]
    return survivors, weights, _reports(columns)


def _sums(
    log_probabilities: Tensor,
    live: _Live[Memory, State],
    scorers: Sequence[Scorer],
    share: float,
) -> Tensor:
    """Sums of scores (b, n, V), in float64, of each hypothesis with each next token."""
    # A decoder may give exactly 0 to a token; finite, so that something can always be chosen.
    sums = log_probabilities.double().clamp_min_(_LEAST).mul_(share)
    for scorer, state in zip(scorers, live.scorers, strict=True):
        sums += scorer.weight * scorer.scores(state).clamp_min(_LEAST)
    sums += live.totals[..., None]
    sums[..., BLANK] = -torch.inf
    return sums


def _bar_endings(sums: Tensor, log_probabilities: Tensor, threshold: float | None) -> None:
    """Forbid, in `sums`, to end where the decoder would much rather go on."""
    if threshold is None:
        return
    others = log_probabilities.clone()
    others[..., EOS] = -torch.inf
    barred = log_probabilities[..., EOS] < threshold * others.amax(-1)  # (b, n)
    sums[..., EOS].masked_fill_(barred, -torch.inf)


def _choose(sums: Tensor, recent: Tensor, settings: BeamSettings) -> tuple[Tensor, Tensor, Tensor]:
    """Take the best of (b, n, V): sums (−inf if too far behind), parents and tokens, (b, m).

    m is as small as the most that any utterance keeps.
    """
    vocabulary_size = sums.size(-1)
    flat = sums.flatten(1)
    wanted = settings.size * (_SPARE if settings.recombine else 1)
    totals, index = flat.topk(min(wanted, flat.size(1)))  # sorted
    if settings.recombine:
        last = _recent(recent, index // vocabulary_size, index % vocabulary_size)  # (b, k, L)
        alike = (last[:, :, None] == last[:, None]).all(-1)  # (b, k, k)
        again = alike.tril(-1).any(-1)  # a better one ends the same way, and both go on
        again &= index % vocabulary_size != EOS
        totals = totals.masked_fill(again, -torch.inf)
        totals, order = totals.topk(min(settings.size, totals.size(1)))
        index = index.gather(1, order)
    behind = totals < totals[:, :1] - settings.width
    totals = totals.masked_fill(behind, -torch.inf)
    most = max(1, int(totals.isfinite().sum(1).max()))  # alive; the dead come last
    totals, index = totals[:, :most], index[:, :most]
    return totals, index // vocabulary_size, index % vocabulary_size


def _recent(recent: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
    """Return the last tokens (b, m, L) of each hypothesis with its new one."""
    if not recent.size(-1):
        return recent[:, :1].expand(-1, parents.size(1), -1)
    kept = recent.gather(1, parents[..., None].expand(-1, -1, recent.size(-1)))
    return torch.cat([kept[..., 1:], tokens[..., None]], dim=-1)


def _reports(columns: list[Tensor]) -> list[StepReport]:
    """Bring all to the host at once: the columns of `StepReport`, each (b, n) or (b, m)."""
    joined = torch.cat([column.double() for column in columns], dim=1).tolist()
    widths = [column.size(1) for column in columns]
    stops = list(accumulate(widths))
    reports = []
    for row in joined:
        parts = [row[stop - width : stop] for stop, width in zip(stops, widths, strict=True)]
        ends, end_totals, tokens, parents, totals, chosen, excess = parts
        reports.append(
            StepReport(
                ends=ends,
                end_totals=end_totals,
                tokens=[int(token) for token in tokens],
                parents=[int(parent) for parent in parents],
                totals=totals,
                log_probabilities=chosen,
                excess=[int(count) for count in excess],
            )
        )
    return reports


_LEAST = -1e4  # in place of a log-probability of −inf
_SPARE = 3  # times the beam's size, how many are looked at where some may be alike
