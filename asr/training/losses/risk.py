"""Minimum risk training over the n-best list of a beam search.

The risk of an utterance is R = Σ_k Q_k c_k over its n-best list, with the errors c_k of hypothesis
k and Q_k = P(k) / Σ P. As dR / d ln P_k = Q_k (c_k − R), the cross-entropy of each hypothesis
weighted by Q_k (R − c_k) has the gradient of the risk. Sources: Shen et al. 2016, "Minimum risk
training for neural machine translation"; n-best lists, Prabhavalkar et al. 2018, "Minimum word
error rate training for attention-based sequence-to-sequence models".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from asr.attention.contract import Memory
from asr.corpora.collate import pad_tokens
from asr.models.decoder import Decoder
from asr.models.speech import SpeechModel
from asr.models.translation import TranslationModel
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.beam import beam_search
from asr.search.contract import Integers
from asr.search.hypothesis import Hypothesis
from asr.search.options import BeamSettings
from asr.search.trees import take
from asr.training.losses.sequences import PADDING, shift, token_loss

Cost = Callable[[list[int], list[int]], float]  # reference, hypothesis → errors


class Texts(NamedTuple):
    """Hypotheses of a batch: their utterance (K,), their weight (K,), and the summed risk."""

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
    """Return the risk summed over a batch, with its gradient.

    memory: of the B utterances, with gradients. remember: computes the memory for the search;
    called without dropout and gradients. limits: (B,) length limits in tokens. wanted: reference
    tokens. beam: beam size.
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
    """Weight the hypotheses of each utterance by Q_k (R − c_k): positive if better than average."""
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
    """Return Σ_k weight_k · cross-entropy_k in nats."""
    device = memory.values.device
    previous, expected = shift(
        *(torch.from_numpy(each).to(device) for each in pad_tokens(texts.tokens))
    )
    output = decoder(previous, take(memory, texts.utterances.to(device)))
    mean = token_loss(output, expected, weights=texts.weights.to(device)).loss
    return mean * (expected != PADDING).sum()
