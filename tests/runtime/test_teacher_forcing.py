"""Teacher forcing gives the weights and log-probabilities of a search that chose the same text."""

import numpy as np
import pytest
import torch

from asr.attention import AdditiveAttention, Annotations
from asr.attention.contract import Memory
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings
from asr.runtime.teacher_forcing import teacher_forced_weights
from asr.runtime.torch_runtime import TorchDecoder
from asr.search import greedy
from asr.text.vocabulary import EOS

SIZE = 6  # of the vocabulary


def decoder_and_memory(utterances: int) -> tuple[Decoder, Memory]:
    torch.manual_seed(3)
    attention = AdditiveAttention(query_size=8, annotation_size=6, attention_size=4)
    decoder = Decoder(attention, SIZE, 6, DecoderSettings(3, 8, 5)).eval()
    values, mask = torch.randn(utterances, 9, 6), torch.ones(utterances, 9, dtype=torch.bool)
    return decoder, decoder.prepare(Annotations(values, mask))


def test_teacher_forcing_equals_greedy_search() -> None:
    decoder, memory = decoder_and_memory(1)
    (hypothesis,) = greedy(TorchDecoder(decoder, memory), np.array([7]))
    assert hypothesis.tokens and EOS not in hypothesis.tokens
    weights, log_probabilities = teacher_forced_weights(decoder, memory, hypothesis.tokens)
    assert not weights.requires_grad
    torch.testing.assert_close(weights, torch.from_numpy(hypothesis.weights))
    assert log_probabilities.tolist() == pytest.approx(hypothesis.token_log_probabilities, abs=1e-5)


def test_several_utterances_are_refused() -> None:
    with pytest.raises(ValueError, match="one utterance, got 2"):
        teacher_forced_weights(*decoder_and_memory(2), [3, 4])
