"""The encoder, CTC and recurrent layers: padding is absent, and lengths are right."""

import math

import pytest
import torch

from asr.attention import Annotations
from asr.models.ctc import CTCHead, ctc_loss
from asr.models.encoders.acoustic import AcousticEncoder, ConvolutionFrontEnd
from asr.models.encoders.recurrent import Bidirectional, reversal


def encoder(**changes):
    torch.manual_seed(0)
    sizes = {"state_size": 4, "layers": 3, "layers_before_reduction": 1, "dropout": 0.0}
    model = AcousticEncoder(ConvolutionFrontEnd(12, 3), **{**sizes, **changes}).eval()
    torch.nn.init.constant_(model.front.first.bias, 0.5)  # so that padding gives more than 0
    return model


@pytest.mark.parametrize("before_reduction", [0, 1, 3])
def test_an_utterance_alone_gets_what_it_gets_in_a_batch(before_reduction):
    model = encoder(layers_before_reduction=before_reduction)
    lengths = torch.tensor([61, 37, 8, 1])
    features = torch.randn(4, 61, 12)
    features *= (torch.arange(61) < lengths[:, None])[:, :, None]
    together = model(features, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = model(features[row : row + 1, :length], lengths[row : row + 1])
        count = alone.values.size(1)
        assert count == math.ceil(length / model.reduction) == together.mask[row].sum()
        torch.testing.assert_close(
            together.values[row, :count], alone.values[0], atol=1e-5, rtol=1e-4
        )
        assert together.values[row, count:].abs().sum() == 0


def test_every_annotation_hears_the_whole_utterance():
    model = encoder()
    features = torch.randn(1, 64, 12, requires_grad=True)
    values = model(features, torch.tensor([64])).values
    for place in (0, values.size(1) - 1):
        (gradient,) = torch.autograd.grad(values[0, place, 0], features, retain_graph=True)
        assert gradient[0, :4].abs().sum() > 0 and gradient[0, -4:].abs().sum() > 0


def test_gradients_of_a_batch_with_an_empty_utterance_are_finite():
    model = encoder().train()
    annotations = model(torch.zeros(2, 40, 12), torch.tensor([40, 0]))
    assert annotations.mask[1].sum() == 0
    annotations.values.sum().backward()
    assert all(torch.isfinite(each.grad).all() for each in model.parameters())


def test_reductions_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="between 0 and layers=3"):
        encoder(layers_before_reduction=4)


def test_two_lstms_equal_a_packed_bidirectional_one():
    torch.manual_seed(1)
    ours = Bidirectional(3, 4)
    theirs = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    for name, weight in ours.ahead.named_parameters():
        getattr(theirs, name).data.copy_(weight)
    for name, weight in ours.back.named_parameters():
        getattr(theirs, f"{name}_reverse").data.copy_(weight)
    inputs, lengths = torch.randn(2, 6, 3), torch.tensor([6, 4])
    found = ours(inputs, reversal(lengths, 6))
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True)
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    torch.testing.assert_close(found[0], wanted[0])
    torch.testing.assert_close(found[1, :4], wanted[1, :4])


def test_under_autocast_the_recurrence_stays_in_32_bits():
    torch.manual_seed(5)
    layer, order = Bidirectional(3, 4), reversal(torch.tensor([6, 4]), 6)
    inputs = torch.randn(2, 6, 3)
    wanted = layer(inputs, order)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layer(inputs, order), wanted, rtol=0, atol=0)
        narrow = layer(inputs.bfloat16(), order)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, wanted, rtol=0, atol=0.02)


def test_reversal_gradient():
    inputs = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    layer = Bidirectional(3, 2).double()
    order = reversal(torch.tensor([4, 2]), 4)
    assert torch.autograd.gradcheck(lambda x: layer(x, order)[0], (inputs,))


def test_ctc_has_its_subframes_in_order_and_its_loss_is_torch_s():
    torch.manual_seed(2)
    head = CTCHead(4, 5, subframes=2)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    annotations = Annotations(torch.randn(2, 3, 4), mask)
    log_probs = head(annotations)
    assert log_probs.shape == (2, 6, 5)
    second = (annotations.values[0, 1] @ head.output.weight.T + head.output.bias)[5:]
    torch.testing.assert_close(log_probs[0, 3], torch.log_softmax(second, -1))
    targets, lengths = torch.tensor([[1, 1, 2], [3, 0, 0]]), torch.tensor([3, 1])
    wanted = torch.nn.functional.ctc_loss(
        log_probs.transpose(0, 1), targets, torch.tensor([6, 4]), lengths, reduction="sum"
    )
    torch.testing.assert_close(
        ctc_loss(log_probs, torch.tensor([6, 4]), targets, lengths), wanted / 4
    )


def test_ctc_of_a_text_without_path_or_without_symbols_is_finite():
    head = CTCHead(4, 5, subframes=1)
    annotations = Annotations(torch.randn(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    targets, lengths = torch.tensor([[1, 1, 1], [0, 0, 0]]), torch.tensor([3, 0])
    loss = ctc_loss(head(annotations), torch.tensor([2, 2]), targets, lengths)
    loss.backward()
    assert torch.isfinite(loss) and loss > 0
    assert torch.isfinite(head.output.weight.grad).all()
