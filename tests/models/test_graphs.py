"""A recorded loop gives what the loop gives, whatever batch of its sizes was in it before."""

from unittest import mock

import pytest
import torch

from asr.attention import AdditiveAttention, Annotations
from asr.models.decoder import Decoder
from asr.models.fused import loop
from asr.models.fused.graphs import GRAPHS, LoopGraph, Sizes
from asr.models.settings import DecoderSettings

ANNOTATION, VOCABULARY = 6, 9


def decoder(attend="before", cell="gru"):
    torch.manual_seed(1)
    attention = AdditiveAttention(8, ANNOTATION, 7, 3, 5)
    options = DecoderSettings(5, 8, 4, cell=cell, attend=attend, initial="mean", dropout=0.0)
    return Decoder(attention, VOCABULARY, ANNOTATION, options).double()


def batch(utterances, steps, length, seed):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(utterances, length, ANNOTATION, generator=generator).double()
    mask = torch.ones(utterances, length, dtype=torch.bool)
    mask[-1, length // 2 :] = False
    tokens = torch.randint(0, VOCABULARY, (utterances, steps), generator=generator)
    return tokens, (values * mask[:, :, None]).requires_grad_(), mask


def results(model, batches):
    """Outputs and gradients of batches, all forward passes before the first backward pass."""
    outputs = []
    for tokens, values, mask in batches:
        output = model(tokens, model.prepare(Annotations(values, mask)))
        outputs.append((output.logits, output.weights))
    found = []
    for (logits, weights), (_, values, _) in zip(outputs, batches, strict=True):
        loss = (logits.tanh() * 2).sum() + (weights.square() * 3).sum()
        wanted = [values, *model.parameters()]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
        found.append([logits, weights, *(each for each in gradients if each is not None)])
    return found


@pytest.mark.parametrize("cell", ["gru", "lstm", "tanh"])
@pytest.mark.parametrize("attend", ["before", "between"])
def test_a_recorded_loop_gives_what_the_loop_gives(attend, cell):
    model = decoder(attend, cell)
    graphs = {}

    def find(inputs, weights, options):
        sizes = Sizes.of(inputs).padded()
        if sizes not in graphs:
            graphs[sizes] = LoopGraph(sizes, inputs, weights, options)
        return graphs[sizes]

    # The second batch fits the graph of the first, and finds there what the first has left.
    shapes = [(5, 20, 40, 1), (3, 11, 33, 2), (9, 4, 35, 3)]
    each_alone = [results(model, [batch(*shape)]) for shape in shapes]
    with mock.patch.object(loop.GRAPHS, "find", find):
        one_by_one = [results(model, [batch(*shape)]) for shape in shapes]
        together = results(model, [batch(*shape) for shape in shapes])
    assert sorted(graphs) == [(32, 8, 64), (32, 16, 64)]
    for (wanted,), (first,), second in zip(each_alone, one_by_one, together, strict=True):
        assert len(wanted) == len(first) == len(second) > 10
        for of_loop, alone, of_three in zip(wanted, first, second, strict=True):
            torch.testing.assert_close(alone, of_loop)
            torch.testing.assert_close(of_three, of_loop)


def test_a_batch_that_is_not_finite_leaves_nothing_for_the_next():
    model = decoder()
    graphs = []

    def find(inputs, weights, options):
        if not graphs:
            graphs.append(LoopGraph(Sizes.of(inputs).padded(), inputs, weights, options))
        return graphs[0]

    small = batch(3, 11, 33, 2)
    (wanted,) = results(model, [small])
    with mock.patch.object(loop.GRAPHS, "find", find):
        tokens, values, mask = batch(5, 20, 40, 1)
        results(model, [(tokens, (values.detach() * torch.nan).requires_grad_(), mask)])
        (found,) = results(model, [small])
    for mine, its in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, its)


def test_a_cpu_has_no_graphs():
    with mock.patch.object(GRAPHS, "_record") as record:
        for _ in range(3):
            results(decoder(), [batch(2, 3, 5, 1)])
    record.assert_not_called()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_what_the_cpu_gives():
    model = decoder()
    wanted = results(model, [batch(5, 20, 40, 1)])[0]
    model.cuda()
    for _ in range(3):  # the second batch records, the third replays
        tokens, values, mask = batch(5, 20, 40, 1)
        values = values.detach().cuda().requires_grad_()
        found = results(model, [(tokens.cuda(), values, mask.cuda())])[0]
        for mine, its in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine.cpu(), its)
