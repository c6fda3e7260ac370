"""The decoder: stepping equals unrolling, the fused loop equals the plain one and the paper."""

import pytest
import torch

from asr.attention import AdditiveAttention, Annotations, Window
from asr.attention.normalizers import build_normalizer
from asr.models import decoder as decoder_module
from asr.models.decoder import Decoder
from asr.models.settings import DecoderSettings


def make(location_features=0, window=None, normalizer="softmax", attend="before", **options):
    torch.manual_seed(5)
    weigh = build_normalizer(normalizer)
    attention = AdditiveAttention(5, 6, 7, location_features, 5, weigh, window)
    settings = DecoderSettings(4, 5, 4, attend=attend, dropout=0.0, **options)
    return Decoder(attention, 9, 6, settings).double()


def given(batch=2, length=8, short=5):
    torch.manual_seed(6)
    values = torch.randn(batch, length, 6, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(batch, length, dtype=torch.bool)
    mask[1:, short:] = False
    return Annotations(values, mask)


TOKENS = torch.tensor([[1, 3, 4, 8, 2, 2], [1, 5, 5, 1, 0, 7]])
WINDOWS = [
    None,
    Window(3, 4),
    Window(3, 4, soft=True, centre="expectation"),
    Window(1, 2, stride=3),
]


@pytest.mark.parametrize("normalizer", ["softmax", "smoothed"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("location_features", [0, 3])
@pytest.mark.parametrize("attend", ["before", "between"])
def test_forward_equals_unrolled_steps(attend, location_features, window, normalizer):
    decoder = make(location_features, window, normalizer, attend)
    memory = decoder.prepare(given())
    output = decoder(TOKENS, memory)
    state = decoder.start(memory)
    for step in range(TOKENS.size(1)):
        logits, state = decoder.step(TOKENS[:, step : step + 1], state, memory)
        torch.testing.assert_close(logits[:, 0], output.logits[:, step])
        torch.testing.assert_close(state.alignment.weights[:, 0], output.weights[:, step])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("location_features", [0, 3])
@pytest.mark.parametrize("attend", ["before", "between"])
@pytest.mark.parametrize("tied", [False, True])
def test_fused_loop_has_the_gradients_of_the_plain_one(
    monkeypatch, tied, attend, location_features, window
):
    decoder = make(location_features, window, attend=attend, tied=tied)
    annotations = given()
    towards = torch.randn(2, 6, 9, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)

    def gradients():
        output = decoder(TOKENS, decoder.prepare(annotations))
        loss = (output.logits * towards[0]).sum() + (output.weights * towards[1]).sum()
        return torch.autograd.grad(loss, [annotations.values, *decoder.parameters()])

    assert decoder_module.can_unroll(decoder.attention)
    fused = gradients()
    monkeypatch.setattr(decoder_module, "can_unroll", lambda attention: False)
    for found, wanted in zip(fused, gradients(), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("attend", ["before", "between"])
def test_gradcheck_through_the_fused_loop(attend):
    decoder = make(location_features=2, attend=attend)
    mask = torch.tensor([[True, True, True, False]])

    def logits(values):
        return decoder(torch.tensor([[1, 4, 2]]), decoder.prepare(Annotations(values, mask)))

    values = torch.randn(1, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(logits, (values,))


def test_first_step_agrees_with_the_paper_written_out():
    decoder = make()
    memory = decoder.prepare(given())
    with torch.no_grad():
        logits, state = decoder.step(torch.tensor([[3], [4]]), decoder.start(memory), memory)
        for row, token in enumerate((3, 4)):
            first = memory.values[row, 0, 3:]  # backward half of the first annotation
            hidden = torch.tanh(decoder.initial.weight @ first + decoder.initial.bias)
            length = int(memory.mask[row].sum())
            energies = [
                decoder.attention.energy
                @ torch.tanh(decoder.attention.query.weight @ hidden + memory.keys[row, place])
                for place in range(length)
            ]
            weights = torch.softmax(torch.stack(energies), 0)
            context = weights @ memory.values[row, :length]
            embedded = decoder.embedding.weight[token]
            inputs = decoder.token_gates.weight @ embedded + decoder.token_gates.bias
            inputs = inputs + decoder.context_gates.weight @ context
            carried = decoder.state_gates.weight @ hidden + decoder.state_gates.bias
            reset = torch.sigmoid(inputs[:5] + carried[:5])
            update = torch.sigmoid(inputs[5:10] + carried[5:10])
            candidate = torch.tanh(inputs[10:] + reset * carried[10:])
            new = (1 - update) * candidate + update * hidden
            joined = torch.cat([new, embedded, context])
            readout = decoder.readout.weight @ joined + decoder.readout.bias
            maxout = torch.stack([max(readout[i], readout[i + 1]) for i in range(0, 8, 2)])
            wanted = decoder.output.weight @ maxout + decoder.output.bias
            torch.testing.assert_close(state.hidden[row, 0], new)
            torch.testing.assert_close(logits[row, 0], wanted)


def test_hypotheses_share_a_memory_and_do_not_touch_each_other():
    decoder = make(location_features=2)
    memory = decoder.prepare(given())
    state = decoder.start(memory).select(torch.zeros(2, 3, dtype=torch.long))
    for tokens in (torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[3, 3, 1], [0, 7, 8]])):
        logits, state = decoder.step(tokens, state, memory)
    alone = decoder.start(memory)
    for token in ([[2], [5]], [[3], [7]]):
        alone_logits, alone = decoder.step(torch.tensor(token), alone, memory)
    torch.testing.assert_close(logits[:, 1:2], alone_logits)
    torch.testing.assert_close(state.alignment.cumulative[:, 1:2], alone.alignment.cumulative)


def test_select_reorders_everything():
    decoder = make()
    memory = decoder.prepare(given())
    state = decoder.start(memory).select(torch.zeros(2, 3, dtype=torch.long))
    _, state = decoder.step(torch.tensor([[1, 2, 3], [4, 5, 6]]), state, memory)
    chosen = state.select(torch.tensor([[2, 0], [1, 1]]))
    for whole, picked in (
        (state.hidden, chosen.hidden),
        (state.context, chosen.context),
        (state.alignment.weights, chosen.alignment.weights),
        (state.alignment.cumulative, chosen.alignment.cumulative),
    ):
        assert torch.equal(picked[0, 0], whole[0, 2]) and torch.equal(picked[0, 1], whole[0, 0])
        assert torch.equal(picked[1, 0], whole[1, 1]) and torch.equal(picked[1, 1], whole[1, 1])


@pytest.mark.parametrize("location_features", [0, 2])
def test_an_utterance_alone_gets_what_it_gets_in_a_batch(location_features):
    decoder = make(location_features)
    together = given()
    alone = Annotations(together.values[1:, :5], together.mask[1:, :5])
    output = decoder(TOKENS, decoder.prepare(together))
    alone_output = decoder(TOKENS[1:], decoder.prepare(alone))
    torch.testing.assert_close(output.logits[1:], alone_output.logits)


def test_autocast_changes_little():
    decoder = make(location_features=2).float()
    annotations = given()
    memory = decoder.prepare(Annotations(annotations.values.float(), annotations.mask))
    exact = decoder(TOKENS, memory)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = decoder(TOKENS, memory)
    torch.testing.assert_close(narrow.weights, exact.weights, atol=2e-2, rtol=0)
