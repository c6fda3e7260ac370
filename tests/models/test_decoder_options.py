"""All decoder options: stepping equals unrolling, batch equals alone, options have effect."""

import itertools
from copy import deepcopy

import numpy as np
import pytest
import torch

from asr.attention import AdditiveAttention, Annotations
from asr.errors import UserError
from asr.models import decoder as decoder_module
from asr.models.decoder import Decoder
from asr.models.initial import SUMMARIES
from asr.models.settings import DecoderSettings
from asr.runtime.torch_runtime import TorchDecoder
from asr.search.beam import beam_search
from asr.search.options import BeamSettings

ATTEND = ("before", "between", "after")
STATE, EMBEDDING, ANNOTATION = 5, 4, 6
SIZES = {"embedding_size": EMBEDDING, "state_size": STATE, "readout_size": 4}
TOKENS = torch.tensor([[1, 3, 4, 8], [1, 5, 5, 2]])
OTHER_TOKENS = torch.tensor([[7, 6, 2, 3], [4, 0, 8, 6]])


def make(**options):
    torch.manual_seed(5)
    attention = AdditiveAttention(STATE, ANNOTATION, 7)
    settings = DecoderSettings(**{**SIZES, "dropout": 0.0, **options})
    return Decoder(attention, 9, ANNOTATION, settings).double()


def given(seed=6, short=3):
    torch.manual_seed(seed)
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1:, short:] = False
    values = torch.randn(2, 5, ANNOTATION, dtype=torch.float64) * mask[:, :, None]
    return Annotations(values, mask)


def product(**choices):
    """Return all combinations, each with a name for the report."""
    return [
        pytest.param(dict(zip(choices, each, strict=True)), id="-".join(map(str, each)))
        for each in itertools.product(*choices.values())
    ]


RECURRENCES = product(
    cell=["gru", "lstm", "tanh"],
    layers=[1, 2],
    attend=ATTEND,
    input_feeding=[False, True],
    initial=[*SUMMARIES, "zero"],
    token_to_cell=[True, False],
)
NORMED = product(
    cell=["gru", "lstm", "tanh"], attend=ATTEND, input_feeding=[False, True], layer_norm=[True]
)
READOUTS = product(
    input_feeding=[False, True],
    readout=["maxout", "tanh"],
    readout_token=[True, False],
    readout_context=[True, False],
    tied=[False, True],
)


@pytest.mark.parametrize("options", RECURRENCES + NORMED + READOUTS)
def test_forward_equals_unrolled_steps_and_trains_every_parameter(options):
    decoder = make(**options)
    memory = decoder.prepare(given())
    output = decoder(TOKENS, memory)
    state = decoder.start(memory)
    for step in range(TOKENS.size(1)):
        logits, state = decoder.step(TOKENS[:, step : step + 1], state, memory)
        torch.testing.assert_close(logits[:, 0], output.logits[:, step])
        torch.testing.assert_close(state.alignment.weights[:, 0], output.weights[:, step])
    output.logits.square().sum().backward()
    unused = {"embedding.weight"} if not reads_tokens(options) else set()
    for name, parameter in decoder.named_parameters():
        assert name in unused or parameter.grad.abs().sum() > 0, name


def reads_tokens(options):
    return any(options.get(name, True) for name in ("token_to_cell", "readout_token", "tied"))


@pytest.mark.parametrize(
    "options",
    product(
        cell=["gru", "lstm"], attend=ATTEND, input_feeding=[False, True], initial=["mean", "zero"]
    ),
)
def test_an_utterance_alone_gets_what_it_gets_in_a_batch(options):
    decoder, together = make(**options), given()
    alone = Annotations(together.values[1:, :3], together.mask[1:, :3])
    output = decoder(TOKENS, decoder.prepare(together))
    alone_output = decoder(TOKENS[1:], decoder.prepare(alone))
    torch.testing.assert_close(output.logits[1:], alone_output.logits)


ALL_STATE = {"cell": "lstm", "layers": 2, "input_feeding": True}


def tensors(state):
    return [state.hidden, state.context, *state.alignment, *state.rest]


@pytest.mark.parametrize("attend", ATTEND)
def test_select_reorders_all_of_the_state(attend):
    decoder = make(attend=attend, **ALL_STATE)
    memory = decoder.prepare(given())
    state = decoder.start(memory).select(torch.zeros(2, 3, dtype=torch.long))
    _, state = decoder.step(torch.tensor([[1, 2, 3], [4, 5, 6]]), state, memory)
    chosen = state.select(torch.tensor([[2, 0], [1, 1]]))
    assert len(tensors(state)) == 4 + 4  # h and c of two layers without `hidden`, and the readout
    for whole, picked in zip(tensors(state), tensors(chosen), strict=True):
        assert torch.equal(picked[0], whole[0, [2, 0]])
        assert torch.equal(picked[1], whole[1, [1, 1]])


@pytest.mark.parametrize("attend", ATTEND)
def test_a_beam_gives_its_texts_the_probabilities_of_teacher_forcing(attend):
    decoder = make(attend=attend, **ALL_STATE).eval()
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(3)
    memory = decoder.prepare(given())
    found = beam_search(
        TorchDecoder(decoder, memory), np.array([4, 4]), BeamSettings(size=3), best=2
    )
    for row, hypotheses in enumerate(found):
        own = type(memory)(*(each[row : row + 1] for each in memory))
        for hypothesis in hypotheses:
            wanted = [*hypothesis.tokens, 1]
            logits = decoder(torch.tensor([[1, *hypothesis.tokens]]), own).logits[0]
            log_probabilities = logits.log_softmax(-1)[range(len(wanted)), wanted].detach()
            assert hypothesis.log_probability == pytest.approx(
                float(log_probabilities.sum()), abs=1e-4
            )


@pytest.mark.parametrize("initial", [*SUMMARIES, "zero"])
@pytest.mark.parametrize("cell", ["gru", "lstm", "tanh"])
def test_the_first_state_depends_on_the_source_unless_it_is_zero(cell, initial):
    decoder = make(initial=initial, cell=cell, layers=2)
    one, other = (decoder.start(decoder.prepare(given(seed))) for seed in (1, 2))
    for left, right in zip((one.hidden, *one.rest), (other.hidden, *other.rest), strict=True):
        assert torch.equal(left, right) == (initial == "zero")
        assert (not left.any()) == (initial == "zero")


def test_the_mean_leaves_out_what_may_not_be_attended_to():
    decoder, annotations = make(initial="mean"), given(short=3)
    wanted = torch.tanh(decoder.initial(annotations.values[1, :3].mean(0)))
    torch.testing.assert_close(decoder.start(decoder.prepare(annotations)).hidden[1, 0], wanted)
    nothing = Annotations(annotations.values, torch.zeros_like(annotations.mask))
    assert decoder.start(decoder.prepare(nothing)).hidden.isfinite().all()


@pytest.mark.parametrize("attend", ATTEND)
@pytest.mark.parametrize("token_to_cell", [True, False])
def test_tokens_move_the_state_unless_they_are_kept_from_the_cell(attend, token_to_cell):
    decoder = make(attend=attend, token_to_cell=token_to_cell)
    memory = decoder.prepare(given())
    states = []
    for tokens in (TOKENS, OTHER_TOKENS):
        logits, state = decoder.step(tokens[:, :1], decoder.start(memory), memory)
        states.append((logits, state))
    (one_logits, one), (other_logits, other) = states
    assert torch.equal(one.hidden, other.hidden) != token_to_cell
    assert not torch.equal(one_logits, other_logits)  # through the readout


@pytest.mark.parametrize("readout", ["maxout", "tanh"])
@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize("context", [True, False])
def test_the_readout_takes_what_it_is_told_to(readout, token, context):
    read = make(readout=readout, readout_token=token, readout_context=context).readout.read
    sizes = (STATE, EMBEDDING, ANNOTATION)
    given = [torch.randn(1, 1, size, dtype=torch.float64) for size in sizes]
    base = read(*given)
    assert base.shape == (1, 1, 4)
    for place, taken in enumerate((True, token, context)):
        changed = [each + (index == place) for index, each in enumerate(given)]
        assert torch.equal(read(*changed), base) != taken


def test_tanh_and_maxout_are_what_they_are_called():
    inputs = [
        torch.randn(1, 1, size, dtype=torch.float64) for size in (STATE, EMBEDDING, ANNOTATION)
    ]
    joined = torch.cat(inputs, -1)[0, 0]
    for kind in ("maxout", "tanh"):
        layer = make(readout=kind).readout
        values = layer.weight @ joined + layer.bias
        wanted = torch.tanh(values) if kind == "tanh" else values.view(4, 2).max(1).values
        torch.testing.assert_close(layer.read(*inputs)[0, 0], wanted)


def gru_cell(gates, input_matrix, input_bias):
    """Return torch's cell with the given matrices."""
    cell = torch.nn.GRUCell(input_matrix.size(1), STATE).double()
    cell.weight_ih.data.copy_(input_matrix)
    cell.weight_hh.data.copy_(gates.weight)
    cell.bias_ih.data.copy_(input_bias)
    cell.bias_hh.data.copy_(gates.bias)
    return cell


@torch.no_grad()
def test_between_is_the_conditional_gru_written_out():
    decoder = make(attend="between")
    second = decoder.second
    first_cell = gru_cell(decoder.state_gates, decoder.token_gates.weight, decoder.token_gates.bias)
    no_bias = torch.zeros(3 * STATE, dtype=torch.float64)
    second_cell = gru_cell(second.state_gates, second.input_gates.weight, no_bias)
    memory = decoder.prepare(given())
    state = decoder.start(memory)
    hidden = state.hidden[:, 0]
    for step in range(3):
        token = TOKENS[:, step : step + 1]
        _, state = decoder.step(token, state, memory)
        middle = first_cell(decoder.embedding(token)[:, 0], hidden)
        context, _ = decoder.attention(middle[:, None], memory, decoder.attention.start(memory))
        hidden = second_cell(context[:, 0], middle)
        torch.testing.assert_close(state.hidden[:, 0], hidden)
        torch.testing.assert_close(state.context, context)


@torch.no_grad()
def test_after_is_a_stack_of_torch_s_lstms_whose_top_asks():
    decoder = make(attend="after", cell="lstm", layers=3, initial="zero")
    lstm = torch.nn.LSTM(EMBEDDING, STATE, 3, batch_first=True).double()
    inputs = [decoder.token_gates, *(cell.input_gates for cell in decoder.upper)]
    states = [decoder.state_gates, *(cell.state_gates for cell in decoder.upper)]
    for layer, (from_input, from_state) in enumerate(zip(inputs, states, strict=True)):
        bias = torch.zeros(4 * STATE) if from_input.bias is None else from_input.bias
        for name, value in (("ih", from_input.weight), ("hh", from_state.weight)):
            getattr(lstm, f"weight_{name}_l{layer}").copy_(value)
        for name, value in (("ih", bias), ("hh", from_state.bias)):
            getattr(lstm, f"bias_{name}_l{layer}").copy_(value)
    wanted, _ = lstm(decoder.embedding(TOKENS))
    memory = decoder.prepare(given())
    state = decoder.start(memory)
    for step in range(TOKENS.size(1)):
        _, state = decoder.step(TOKENS[:, step : step + 1], state, memory)
        torch.testing.assert_close(state.hidden[:, 0], wanted[:, step])
        asked, _ = decoder.attention(state.hidden, memory, decoder.attention.start(memory))
        torch.testing.assert_close(state.context, asked)


def test_before_asks_with_the_top_of_the_last_step():
    decoder = make(layers=2)
    memory = decoder.prepare(given())
    state = decoder.start(memory)
    for step in range(3):
        context, _ = decoder.attention(state.hidden, memory, state.alignment)
        _, state = decoder.step(TOKENS[:, step : step + 1], state, memory)
        torch.testing.assert_close(state.context, context)


@pytest.mark.parametrize("attend", ATTEND)
def test_layer_norm_takes_the_scale_of_every_product_into_the_gates_away(attend):
    decoder = make(attend=attend, layers=2, layer_norm=True, initial="zero")
    memory = decoder.prepare(given())
    before = decoder(TOKENS, memory).logits
    for name, parameter in decoder.named_parameters():
        if "_gates" in name:
            parameter.data.mul_(1000)
    # LayerNorm adds 1e-5 to the variance, which is not much smaller before the scaling.
    torch.testing.assert_close(decoder(TOKENS, memory).logits, before, atol=1e-2, rtol=0)


@pytest.mark.parametrize("attend", ATTEND)
def test_input_feeding_hands_the_readout_to_the_next_cell_and_to_no_other(attend):
    decoder = make(attend=attend, input_feeding=True)
    memory = decoder.prepare(given())
    start = decoder.start(memory)
    assert not start.rest[-1].any()
    state = start
    for step in range(2):
        token = TOKENS[:, step : step + 1]
        _, state = decoder.step(token, state, memory)
        read = decoder.readout.read(state.hidden, decoder.embedding(token), state.context)
        torch.testing.assert_close(state.rest[-1], read)
    changed = state._replace(rest=(*state.rest[:-1], state.rest[-1] + 1))
    _, one = decoder.step(TOKENS[:, 2:3], state, memory)
    _, other = decoder.step(TOKENS[:, 2:3], changed, memory)
    assert not torch.allclose(one.hidden, other.hidden)


def test_the_fused_loop_serves_what_it_computes_and_nothing_else(monkeypatch):
    calls = []
    unroll = decoder_module.unroll
    monkeypatch.setattr(decoder_module, "unroll", lambda *given: calls.append(1) or unroll(*given))
    fused = [{}, {"initial": "zero"}, {"token_to_cell": False}, {"readout": "tanh"}, {"tied": True}]
    fused += [{"attend": "between"}, {"cell": "lstm"}, {"cell": "tanh"}]
    others = [{"layers": 2}, {"attend": "after"}, {"input_feeding": True}]
    others += [{"layer_norm": True}, {"attend": "between", "layer_norm": True}]
    for options in fused + others:
        calls.clear()
        decoder = deepcopy(make(**options))
        decoder(TOKENS, decoder.prepare(given()))
        assert len(calls) == (options in fused), options


def test_dropout_rates_are_those_of_their_places():
    memory = make().prepare(given())
    silent = make(readout_dropout=1.0)
    torch.testing.assert_close(silent(TOKENS, memory).logits, silent.output.bias.expand(2, 4, 9))
    deaf = make(embedding_dropout=1.0)
    assert torch.equal(deaf(TOKENS, memory).logits, deaf(OTHER_TOKENS, memory).logits)
    parted = make(dropout=1.0, embedding_dropout=0.0, readout_dropout=0.0, layers=2)
    start = parted.start(memory)
    one, other = (parted.step(each[:, :1], start, memory)[1] for each in (TOKENS, OTHER_TOKENS))
    assert not torch.equal(one.rest[0], other.rest[0])  # the token is the input of the lower layer
    assert torch.equal(one.hidden, other.hidden)  # and has no effect on the upper layer


@pytest.mark.parametrize("attend", ATTEND)
def test_autocast_keeps_the_state_in_full(attend):
    decoder = make(attend=attend, cell="lstm", input_feeding=True).float()
    annotations = Annotations(given().values.float(), given().mask)
    exact = decoder(TOKENS, decoder.prepare(annotations))
    with torch.autocast("cpu", torch.bfloat16):
        memory = decoder.prepare(annotations)
        narrow = decoder(TOKENS, memory)
        _, state = decoder.step(TOKENS[:, :1], decoder.start(memory), memory)
    assert state.hidden.dtype == state.rest[0].dtype == torch.float32
    torch.testing.assert_close(narrow.weights, exact.weights, atol=2e-2, rtol=0)
    torch.testing.assert_close(narrow.logits, exact.logits, atol=5e-2, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "rnn"}, "cell 'rnn' is not one of: gru, lstm, tanh"),
        ({"layers": 0}, "layers must be from 1 to 64, got 0"),
        ({"attend": "never"}, "attend 'never' is not one of: before, between, after"),
        ({"initial": "first"}, "initial 'first' is not one of: last_backward, mean, zero"),
        ({"readout": "relu"}, "readout 'relu' is not one of: maxout, tanh"),
        ({"attend": "after", "readout_context": False}, "decoder.readout_context must be true"),
        ({"tied": True, "embedding_size": 3}, "decoder.tied wants .* got 4 and 3"),
    ],
)
def test_what_makes_no_decoder_is_refused_in_a_line(options, message):
    with pytest.raises(UserError, match=message) as error:
        settings = DecoderSettings(**{**SIZES, **options})
        Decoder(AdditiveAttention(STATE, ANNOTATION, 7), 9, ANNOTATION, settings)
    assert "\n" not in str(error.value)
