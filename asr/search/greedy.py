"""Greedy search: always the likeliest token, from the decoder or from CTC."""

from __future__ import annotations

from typing import Generic, NamedTuple

import torch
from torch import Tensor

from asr.results import StopReason
from asr.search.contract import Memory, SearchDecoder, State
from asr.search.guard import DEFAULT_GUARD, GuardState, RepeatGuard
from asr.search.hypothesis import (
    Ending,
    History,
    Hypothesis,
    Step,
    check_limits,
    next_log_probabilities,
    should_thin,
    take,
)
from asr.text.vocabulary import BLANK, EOS


class _Live(NamedTuple, Generic[Memory, State]):
    """The utterances that are still being decoded, with one hypothesis each."""

    memory: Memory
    state: State
    tokens: Tensor  # (b, 1), the last ones
    watch: GuardState


@torch.no_grad()
def greedy(
    decoder: SearchDecoder[Memory, State],
    memory: Memory,
    limits: Tensor,
    guard: RepeatGuard | None = DEFAULT_GUARD,
) -> list[Hypothesis]:
    """Decode each utterance by its likeliest token at every step.

    limits: (B,) long, most tokens of each text, end-of-sentence not counted. A text that has
        reached it is asked once more: it ends by "eos" if the decoder would end it there.
    guard: what ends a text that goes in circles; None lets it go on to its limit.

    Utterances that have ended are taken out of the batch once they are an eighth of it. Each step
    sends one small tensor to the host.

    Raises:
        ValueError: limits of the wrong shape, or negative.
    """
    caps = check_limits(limits, len(memory.mask))
    history, endings = History(), dict[int, Ending]()
    utterances = list(range(len(caps)))  # of the rows
    rows = {utterance: row for row, utterance in enumerate(utterances)}
    device = memory.values.device
    live = _Live(
        memory,
        decoder.start(memory),
        torch.full((len(caps), 1), EOS, device=device),
        (guard or DEFAULT_GUARD).start(len(caps), device),
    )
    step = 0
    while len(endings) < len(caps):
        live, weights, report = _step(decoder, live, guard)
        tokens, best, ends, excess = report.tolist()
        history.add(
            Step(
                rows=rows,
                weights=weights,
                ends=[[end] for end in ends],
                parents=[[0]] * len(rows),
                tokens=[[int(token)] for token in tokens],
                log_probabilities=[[value] for value in best],
            )
        )
        for row, utterance in enumerate(utterances):
            ending = _ending(step, caps[utterance], int(tokens[row]), int(excess[row]))
            if ending is not None and utterance not in endings:
                endings[utterance] = ending
        left = [row for row, utterance in enumerate(utterances) if utterance not in endings]
        if should_thin(len(left), len(utterances)):
            live = take(live, torch.tensor(left, device=device))
            utterances = [utterances[row] for row in left]
            rows = {utterance: row for row, utterance in enumerate(utterances)}
        step += 1
    found = [history.hypothesis(utterance, endings[utterance]) for utterance in range(len(caps))]
    return [each._replace(score=each.log_probability) for each in found]


def _step(
    decoder: SearchDecoder[Memory, State], live: _Live[Memory, State], guard: RepeatGuard | None
) -> tuple[_Live[Memory, State], Tensor, Tensor]:
    """One step: what lives on, weights (b, 1, T), and for the host (4, b):

    tokens, their log-probabilities, those of end-of-sentence, and the guard's excess.
    """
    logits, state = decoder.step(live.tokens, live.state, live.memory)
    log_probabilities = next_log_probabilities(logits)  # (b, 1, V)
    best, tokens = log_probabilities.max(-1)  # (b, 1)
    watch, excess = live.watch, torch.zeros_like(tokens)
    if guard is not None:
        watch, excess = guard.advance(live.watch, tokens, state.alignment.weights)
    report = torch.stack(
        [
            tokens.double(),
            best.double(),
            log_probabilities[..., EOS].double(),
            excess.double(),
        ]
    )
    return (
        _Live(live.memory, state, tokens, watch),
        state.alignment.weights,
        report[..., 0],
    )


def _ending(step: int, limit: int, token: int, excess: int) -> Ending | None:
    """How a text ends at this step, or None where it goes on."""
    if token == EOS:
        return Ending(0.0, step, 0, step, StopReason.EOS)
    if step == limit:
        return Ending(0.0, step, 0, step, StopReason.LENGTH)
    if excess:
        return Ending(0.0, step + 1, 0, step + 1 - excess, StopReason.REPEAT)
    return None


def ctc_greedy(log_probs: Tensor, lengths: Tensor) -> list[list[int]]:
    """Read CTC's likeliest labelling frame by frame: repeats joined, blanks left out.

    log_probs: (B, T', V). lengths: (B,), frames of each utterance. Source: Graves et al. 2006,
    "best path decoding".
    """
    best = log_probs.argmax(-1)  # (B, T')
    before = torch.nn.functional.pad(best[:, :-1], (1, 0), value=BLANK)
    frames = torch.arange(best.size(1), device=best.device)
    kept = (best != before) & (best != BLANK) & (frames < lengths[:, None])
    return [row[keep].tolist() for row, keep in zip(best.cpu(), kept.cpu(), strict=True)]
