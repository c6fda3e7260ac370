"""Shifted targets and scheduled sampling."""

import pytest
import torch
from torch.nn import functional

from asr.attention import AdditiveAttention, Annotations
from asr.corpora.collate import pad_tokens
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings
from asr.training.config import LossSettings
from asr.training.losses.sequences import PADDING, decode_with_sampling, sequence_loss, shift


def test_targets_are_shifted():
    tokens, lengths = map(torch.from_numpy, pad_tokens([[5, 6, 7], [8], []]))
    previous, expected = shift(tokens, lengths)
    assert previous.tolist() == [[1, 5, 6, 7], [1, 8, 0, 0], [1, 0, 0, 0]]
    assert expected.tolist() == [
        [5, 6, 7, 1],
        [8, 1, PADDING, PADDING],
        [1, PADDING, PADDING, PADDING],
    ]


def decoder_and_memory():
    torch.manual_seed(0)
    decoder = Decoder(AdditiveAttention(5, 6, 7), 9, 6, DecoderSettings(4, 5, 3, dropout=0.0))
    memory = decoder.prepare(Annotations(torch.randn(2, 8, 6), torch.ones(2, 8, dtype=torch.bool)))
    return decoder, memory


def test_padding_does_not_change_the_loss_of_what_is_not_padded():
    decoder, memory = decoder_and_memory()
    settings = LossSettings(entropy=0.1, diagonality=0.5, diagonality_steps=10, coverage=0.1)

    def loss(width):
        tokens = torch.zeros(2, width, dtype=torch.long)
        tokens[:, :3] = torch.tensor([[3, 4, 5], [6, 7, 0]])
        previous, expected = shift(tokens, torch.tensor([3, 2]))
        output = decode_with_sampling(decoder, previous, memory, share=0.0)
        return sequence_loss(output, expected, torch.tensor([8, 8]), settings, step=0)[0]

    torch.testing.assert_close(loss(3), loss(7))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_and_accuracy_are_those_of_the_logits_without_padding(smoothing):
    decoder, memory = decoder_and_memory()
    previous, expected = shift(torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([3, 2]))
    output = decoder(previous, memory)
    settings = LossSettings(label_smoothing=smoothing)
    loss, parts = sequence_loss(output, expected, torch.tensor([8, 8]), settings, step=0)
    logits = output.logits.flatten(0, 1)
    wanted = functional.cross_entropy(
        logits, expected.flatten(), ignore_index=PADDING, label_smoothing=smoothing
    )
    torch.testing.assert_close(loss, wanted)
    right = logits.argmax(1) == expected.flatten()
    torch.testing.assert_close(parts["accuracy"], right.sum() / 7)
    parameters = list(decoder.parameters())
    found = torch.autograd.grad(loss, parameters, retain_graph=True)
    for one, other in zip(found, torch.autograd.grad(wanted, parameters), strict=True):
        torch.testing.assert_close(one, other)


def test_sampling_feeds_back_the_decoder_s_own_tokens_in_the_share_asked_for():
    decoder, memory = decoder_and_memory()
    fed = []
    decoder.register_forward_pre_hook(lambda module, given: fed.append(given[0]))
    previous = torch.full((2, 400), 2)
    previous[:, 0] = 1
    plain = decoder(previous, memory).logits
    fed.clear()
    torch.manual_seed(1)
    decode_with_sampling(decoder, previous, memory, share=0.3)
    first, second = fed
    assert torch.equal(first, previous) and (second[:, 0] == 1).all()
    own = plain[:, :-1].argmax(-1)
    changed = second[:, 1:] != 2
    assert torch.equal(second[:, 1:][changed], own[changed])
    assert 0.2 < changed.float().mean() / (own != 2).float().mean() < 0.4


def test_no_sampling_is_one_pass():
    decoder, memory = decoder_and_memory()
    passes = []
    decoder.register_forward_pre_hook(lambda module, given: passes.append(1))
    decode_with_sampling(decoder, torch.ones(2, 3, dtype=torch.long), memory, share=0.0)
    assert len(passes) == 1
