"""The contract of attention mechanisms, as checks that tests call with a mechanism."""

import torch

from asr.attention import Alignment, Annotations
from asr.attention.build import build_attention
from asr.attention.normalizers import build_normalizer
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings

SIZE = 16  # of queries, annotations and keys: equal for dot attention; 4 heads of 4 may divide it
LENGTH = 11
OPTIONS = {"location_features": 2, "location_width": 3, "local_reach": 3}


def make(kind, normalizer="softmax", window=None, heads=1, key_value_heads=None):
    """Make a mechanism whose parameters are all in use: none is at its first value, such as 0."""
    torch.manual_seed(2)
    options = {**OPTIONS, "normalizer": build_normalizer(normalizer), "window": window}
    built = build_attention(kind, SIZE, SIZE, SIZE, heads, key_value_heads, options)
    for parameter in built.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return built.double().eval()


def given():
    """Return four utterances: full, padded, with silences at the ends and inside, all silence."""
    torch.manual_seed(4)
    mask = torch.ones(4, LENGTH, dtype=torch.bool)
    mask[1, 9:] = False
    mask[2, [0, 4, 5, 10]] = False
    mask[3] = False
    return Annotations(torch.randn(4, LENGTH, SIZE, dtype=torch.float64), mask)


def check_distribution(attention):
    """Weights are a distribution over the allowed positions; the alignment accumulates them."""
    annotations = given()
    memory = attention.prepare(annotations)
    state = attention.start(memory, 3)
    total = annotations.mask.any(1).double()[:, None].expand(4, 3)
    for training in (False, True, False):
        query = 9 * torch.randn(4, 3, SIZE, dtype=torch.float64)
        before = state
        context, state = attention.train(training)(query, memory, before)
        assert context.shape == (4, 3, SIZE) and state.weights.shape == (4, 3, LENGTH)
        torch.testing.assert_close(state.weights.sum(-1), total)
        assert (state.weights >= 0).all()
        assert (state.weights.transpose(1, 2)[~annotations.mask] == 0).all()
        torch.testing.assert_close(state.cumulative, before.cumulative + state.weights)
        assert (context[3] == 0).all()
        if attention.context_is_weighted_mean:
            torch.testing.assert_close(context, state.weights @ memory.values)


def check_neighbours(attention):
    """Results do not depend on other utterances of the batch or on other hypotheses."""
    together = given()
    memory = attention.prepare(together)
    state = attention.start(memory, 3)
    queries = torch.randn(2, 4, 3, SIZE, dtype=torch.float64)
    found = []
    for query in queries:
        context, state = attention(query, memory, state)
        found.append((context, state.weights))
    for row, length in ((1, 9), (2, LENGTH)):
        alone = Annotations(
            together.values[row : row + 1, :length], together.mask[row : row + 1, :length]
        )
        memory = attention.prepare(alone)
        state = attention.start(memory)
        for query, (wanted_context, wanted_weights) in zip(queries, found, strict=True):
            context, state = attention(query[row : row + 1, 2:], memory, state)
            torch.testing.assert_close(context[0, 0], wanted_context[row, 2])
            torch.testing.assert_close(state.weights[0, 0], wanted_weights[row, 2, :length])


def check_gradients(attention):
    """Gradients are right, finite, and reach every parameter."""
    mask = given().mask
    past = torch.rand(4, 2, LENGTH, dtype=torch.float64) * mask[:, None]

    def attend(query, values):
        memory = attention.prepare(Annotations(values, mask))
        context, state = attention(query, memory, Alignment(past, 2 * past))
        return context, state.weights

    query = torch.randn(4, 2, SIZE, dtype=torch.float64, requires_grad=True)
    values = given().values.requires_grad_()
    assert torch.autograd.gradcheck(attend, (query, values), fast_mode=True)
    attend(query, values)[0].square().sum().backward()
    for name, each in attention.named_parameters():
        assert each.grad.isfinite().all() and each.grad.abs().sum() > 0, name


def check_low_precision(attention):
    """With 16-bit inputs the weights are float32 and a distribution."""
    annotations = given()
    narrow = Annotations(annotations.values.float(), annotations.mask)
    attention = attention.float()
    with torch.autocast("cpu", torch.bfloat16):
        memory = attention.prepare(narrow)
        context, state = attention(9 * torch.randn(4, 3, SIZE), memory, attention.start(memory, 3))
    assert state.weights.dtype == torch.float32 and context.isfinite().all()
    torch.testing.assert_close(state.weights.sum(-1)[:3], torch.ones(3, 3))


def check_decoder(attention):
    """Teacher forcing over all steps equals single steps."""
    settings = DecoderSettings(4, SIZE, 3, dropout=0.0)
    decoder = Decoder(attention, 9, SIZE, settings).double().eval()
    memory = decoder.prepare(given())
    tokens = torch.tensor([[1, 3, 4, 8], [1, 5, 5, 1], [1, 0, 2, 7], [1, 6, 6, 6]])
    output, state = decoder(tokens, memory), decoder.start(memory)
    for step in range(4):
        logits, state = decoder.step(tokens[:, step : step + 1], state, memory)
        torch.testing.assert_close(logits[:, 0], output.logits[:, step])
        torch.testing.assert_close(state.alignment.weights[:, 0], output.weights[:, step])
