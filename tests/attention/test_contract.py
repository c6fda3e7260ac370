"""What every mechanism owes the decoder, for each kind, normaliser and window."""

import inspect

import pytest
import torch

from asr.attention import KINDS, Annotations, Window
from asr.attention.contract import attention_class
from asr.attention.normalizers import NORMALIZERS
from asr.models.decoder import Decoder

SIZE = 6  # of queries and annotations: dot attention wants one size for both
WINDOWS = [None, Window(2, 3), Window(2, 3, soft=True, centre="expectation")]


def make(kind, normalizer="softmax", window=None):
    torch.manual_seed(2)
    found = attention_class(kind)
    sizes = {"query_size": SIZE, "annotation_size": SIZE}
    if "attention_size" in inspect.signature(found.__init__).parameters:
        sizes["attention_size"] = 5
    return found(**sizes, normalizer=normalizer, window=window).double()


def given():
    torch.manual_seed(4)
    mask = torch.ones(2, 8, dtype=torch.bool)
    mask[1, 5:] = False
    return Annotations(torch.randn(2, 8, SIZE, dtype=torch.float64), mask)


every = pytest.mark.parametrize("kind", sorted(KINDS))
normalizers = pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
windows = pytest.mark.parametrize("window", WINDOWS)


@every
@normalizers
@windows
def test_weights_are_a_distribution_over_what_may_be_attended_to(kind, normalizer, window):
    attention, annotations = make(kind, normalizer, window), given()
    memory = attention.prepare(annotations)
    state = attention.start(memory, 3)
    for _ in range(3):
        query = 9 * torch.randn(2, 3, SIZE, dtype=torch.float64)
        before = state
        context, state = attention(query, memory, before)
        assert context.shape == (2, 3, SIZE) and state.weights.shape == (2, 3, 8)
        torch.testing.assert_close(state.weights.sum(-1), torch.ones(2, 3, dtype=torch.float64))
        assert (state.weights[1, :, 5:] == 0).all() and (state.weights >= 0).all()
        torch.testing.assert_close(context, state.weights @ memory.values)
        torch.testing.assert_close(state.cumulative, before.cumulative + state.weights)


@every
@normalizers
@windows
def test_neighbours_in_batch_and_beam_change_nothing(kind, normalizer, window):
    attention, together = make(kind, normalizer, window), given()
    alone = Annotations(together.values[1:, :5], together.mask[1:, :5])
    memory, alone_memory = attention.prepare(together), attention.prepare(alone)
    state, alone_state = attention.start(memory, 3), attention.start(alone_memory)
    for _ in range(3):
        query = torch.randn(2, 3, SIZE, dtype=torch.float64)
        context, state = attention(query, memory, state)
        alone_context, alone_state = attention(query[1:, 2:], alone_memory, alone_state)
    torch.testing.assert_close(context[1:, 2:], alone_context)
    torch.testing.assert_close(state.weights[1:, 2:, :5], alone_state.weights)


@every
def test_gradients_are_right_and_all_parameters_get_one(kind):
    attention, annotations = make(kind), given()

    def attend(query, values):
        memory = attention.prepare(Annotations(values, annotations.mask))
        context, state = attention(query, memory, attention.start(memory, 2))
        return context, state.weights

    query = torch.randn(2, 2, SIZE, dtype=torch.float64, requires_grad=True)
    values = annotations.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(attend, (query, values), fast_mode=True)
    attend(query, values)[0].square().sum().backward()
    assert all(each.grad.abs().sum() > 0 for each in attention.parameters())


@every
@windows
def test_in_the_decoder_forward_equals_unrolled_steps(kind, window):
    decoder = Decoder(make(kind, window=window), 9, SIZE, 4, SIZE, 3, 0.0).double()
    memory = decoder.prepare(given())
    tokens = torch.tensor([[1, 3, 4, 8], [1, 5, 5, 1]])
    output, state = decoder(tokens, memory), decoder.start(memory)
    for step in range(4):
        logits, state = decoder.step(tokens[:, step : step + 1], state, memory)
        torch.testing.assert_close(logits[:, 0], output.logits[:, step])


def test_scaled_dot_agrees_with_torch():
    attention, annotations = make("scaled_dot"), given()
    query = torch.randn(2, 3, SIZE, dtype=torch.float64)
    memory = attention.prepare(annotations)
    context, _ = attention(query, memory, attention.start(memory, 3))
    wanted = torch.nn.functional.scaled_dot_product_attention(
        attention.query(query),
        memory.keys,
        memory.values,
        attn_mask=annotations.mask[:, None].expand(-1, 3, -1),
    )
    torch.testing.assert_close(context, wanted)


def test_luong_s_dot_and_general_are_what_the_paper_writes():
    annotations = given()
    query = torch.randn(2, 1, SIZE, dtype=torch.float64)
    dot, general = make("dot"), make("general")
    for attention, matrix in ((dot, torch.eye(SIZE).double()), (general, general.key.weight)):
        memory = attention.prepare(annotations)
        found = attention.energies(query, memory, attention.start(memory))
        for row in range(2):
            for place in range(8):
                wanted = query[row, 0] @ matrix @ annotations.values[row, place]
                torch.testing.assert_close(found[row, 0, place], wanted)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="additive"):
        attention_class("subtractive")


def test_dot_wants_one_size():
    with pytest.raises(ValueError, match="one size"):
        attention_class("dot")(query_size=3, annotation_size=4)
