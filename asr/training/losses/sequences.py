"""Targets for teacher forcing, and the loss terms that all sequence tasks share."""

from __future__ import annotations

import torch
from torch import Tensor

from asr.attention import penalties
from asr.attention.contract import Memory
from asr.models.decoder import Decoder, DecoderOutput
from asr.text.vocabulary import EOS
from asr.training.config import LossSettings
from asr.training.losses.cross_entropy import Outcome, cross_entropy

PADDING = -100  # a target that losses ignore


def shift(targets: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Make the inputs and the targets of the decoder from tokens (B, U) of lengths (B,).

    Returns previous (B, U+1), which begins with <eos>, and expected (B, U+1), which ends with
    <eos>, followed by PADDING.
    """
    ends = targets.new_full((len(targets), 1), EOS)
    previous = torch.cat([ends, targets], dim=1)
    places = torch.arange(previous.size(1), device=targets.device)
    expected = torch.cat([targets, ends], dim=1)
    expected = torch.where(places == lengths[:, None], EOS, expected)
    return previous, torch.where(places > lengths[:, None], PADDING, expected)


def decode_with_sampling(
    decoder: Decoder, previous: Tensor, memory: Memory, share: float
) -> DecoderOutput:
    """Teacher forcing in which a share of the previous tokens are predictions of the decoder.

    A first pass without gradients predicts the token of each step; the second pass gets some of
    them as inputs. Source: scheduled sampling, Bengio et al. 2015, in the parallel form of
    Duckworth et al. 2019.
    """
    if share <= 0:
        return _forward(decoder, previous, memory)
    with torch.no_grad():
        own = _forward(decoder, previous, memory).logits[:, :-1].argmax(-1)  # (B, U)
    taken = torch.rand(own.shape, device=own.device) < share
    mixed = torch.where(taken, own, previous[:, 1:])
    return _forward(decoder, torch.cat([previous[:, :1], mixed], dim=1), memory)


def token_loss(
    output: DecoderOutput,
    expected: Tensor,
    label_smoothing: float = 0.0,
    consistency: float = 0.0,
    weights: Tensor | None = None,
) -> Outcome:
    """Cross-entropy of expected tokens (B, U) without PADDING; see `cross_entropy`.

    weights: (B,), factor of the losses of each sequence.
    """
    places = (expected != PADDING).flatten().nonzero()[:, 0]  # (N,), without padding
    if weights is not None:
        weights = weights[:, None].expand_as(expected).flatten()[places]
    return cross_entropy(
        output.readout.flatten(0, 1).index_select(0, places),
        output.matrix,
        output.bias,
        expected.flatten()[places],
        label_smoothing,
        consistency,
        weights,
    )


def sequence_loss(
    output: DecoderOutput,
    expected: Tensor,
    lengths: Tensor,
    settings: LossSettings,
    step: int,
    consistency: float = 0.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy per token plus the attention penalties.

    expected: (B, U) with PADDING. lengths: (B,) annotations of each utterance. With `consistency`
    the second half of the batch repeats the first half.
    Returns the sum, and its terms by name for the log.
    """
    steps = expected != PADDING
    per_token, inconsistency, right = token_loss(
        output, expected, settings.label_smoothing, consistency
    )
    parts = {"cross_entropy": per_token - consistency * inconsistency}
    if consistency:
        parts["inconsistency"] = inconsistency
    parts["entropy"] = penalties.entropy_penalty(output.weights, steps)
    penalty = torch.zeros_like(per_token)
    if settings.entropy:
        distance = penalties.entropy_penalty(output.weights, steps, settings.entropy_target)
        penalty = penalty + settings.entropy * distance
    if settings.coverage:
        parts["coverage"] = penalties.coverage_penalty(output.weights, steps)
        penalty = penalty + settings.coverage * parts["coverage"]
    if settings.diagonality and step < settings.diagonality_steps:
        left = 1 - step / settings.diagonality_steps
        parts["diagonality"] = penalties.diagonality_penalty(output.weights, steps, lengths)
        penalty = penalty + settings.diagonality * left * parts["diagonality"]
    parts["accuracy"] = right / steps.sum().clamp_min(1)
    return per_token + penalty, parts


def _forward(decoder: Decoder, previous: Tensor, memory: Memory) -> DecoderOutput:
    output = decoder(previous, memory)
    assert isinstance(output, DecoderOutput)
    return output
