"""Minimum risk training: fewer expected errors among the texts that a beam finds best.

The risk of an utterance is R = Σ_k Q_k c_k over the texts of its beam, c_k the errors of text k
and Q_k = P(text k) / Σ P. As dR / d ln P_k = Q_k (c_k − R), a text's own cross-entropy, weighted
by Q_k (R − c_k), has the gradient of the risk. Sources: Shen et al. 2016, "Minimum risk training
for neural machine translation"; n-best lists and speech, Prabhavalkar et al. 2018, "Minimum word
error rate training for attention-based sequence-to-sequence models".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from asr.attention.contract import Memory
from asr.models.decoder import Decoder
from asr.models.seq2seq import SpeechModel, TranslationModel
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.beam import beam_search
from asr.search.contract import Integers
from asr.search.hypothesis import Hypothesis
from asr.search.options import BeamSettings
from asr.search.trees import take
from asr.training.losses.sequences import PADDING, pad, shift, token_loss

Cost = Callable[[list[int], list[int]], float]  # tokens wanted, tokens of a text → its errors


class Texts(NamedTuple):
    """Texts of a batch: the utterance that each is of, (K,), its weight, (K,), and all the risk."""

    tokens: list[list[int]]
    utterances: Tensor
    weights: Tensor
    risk: float


def expected_errors(
    model: SpeechModel | TranslationModel,
    memory: Memory,
    remember: Callable[[], Memory],
    limits: Integers,
    wanted: Sequence[list[int]],
    cost: Cost,
    beam: int,
) -> Tensor:
    """Return a number with the value and the gradient of the risk, summed over a batch.

    memory: of the B utterances, with gradients. remember: makes one to search in, called while
    dropout and gradients are off. limits: (B,), most tokens of each text. wanted: the
    references' tokens. beam: its size.
    """
    model.eval()
    try:
        with torch.no_grad():
            settings = BeamSettings(beam)
            decoder = TorchDecoder(model.decoder, remember())
            found = beam_search(decoder, limits, settings, best=beam)
    finally:
        model.train()
    texts = weigh(found, wanted, cost)
    slope = _weighted_sum(model.decoder, memory, texts)
    return slope + (texts.risk - slope).detach()


def weigh(found: Sequence[Sequence[Hypothesis]], wanted: Sequence[list[int]], cost: Cost) -> Texts:
    """Weigh the texts of each utterance by Q_k (R − c_k): above 0 are those better than most."""
    tokens: list[list[int]] = []
    utterances: list[int] = []
    weights, risk = [], 0.0
    for place, (texts, reference) in enumerate(zip(found, wanted, strict=True)):
        costs = torch.tensor([cost(reference, text.tokens) for text in texts])
        shares = torch.tensor([text.log_probability for text in texts]).softmax(0)
        expected = (shares * costs).sum()
        tokens += [text.tokens for text in texts]
        utterances += [place] * len(texts)
        weights.append(shares * (expected - costs))
        risk += float(expected)
    return Texts(tokens, torch.tensor(utterances), torch.cat(weights), risk)


def _weighted_sum(decoder: Decoder, memory: Memory, texts: Texts) -> Tensor:
    """Σ_k of each text's weight times its cross-entropy in nats."""
    device = memory.values.device
    previous, expected = shift(*(each.to(device) for each in pad(texts.tokens)))
    output = decoder(previous, take(memory, texts.utterances.to(device)))
    mean = token_loss(output, expected, weights=texts.weights.to(device)).loss
    return mean * (expected != PADDING).sum()
