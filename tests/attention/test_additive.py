"""Additive attention: the paper's equations, what a batch may not change, and gradients."""

import math

import pytest
import torch

from asr.attention import AdditiveAttention, Alignment, Annotations, Window


def make(location_features=0, window=None, normalizer="softmax"):
    torch.manual_seed(3)
    return AdditiveAttention(
        5, 6, 7, location_features, location_width=5, normalizer=normalizer, window=window
    ).double()


def annotations(batch=2, length=9, short=4):
    values = torch.randn(batch, length, 6, dtype=torch.float64)
    mask = torch.ones(batch, length, dtype=torch.bool)
    mask[-1, short:] = False
    return Annotations(values, mask)


def loops(attention, query, values, places, previous, cumulative):
    """Bahdanau et al., appendix A.1.2, and Chorowski et al., eq. (9), place by place."""
    matrix_query, matrix_key = attention.query.weight, attention.key.weight
    energies = []
    for place in places:
        inner = matrix_query @ query + matrix_key @ values[place] + attention.key.bias
        if attention.location is not None:
            kernel, mix = attention.location[0].weight, attention.location[1].weight[:, :, 0]
            reach = kernel.size(2) // 2
            features = torch.zeros(kernel.size(0), dtype=values.dtype)
            for channel in range(kernel.size(0)):
                for offset in range(-reach, reach + 1):
                    seen = place + offset
                    if 0 <= seen < len(values):
                        weight = kernel[channel, :, offset + reach]
                        features[channel] += weight[0] * previous[seen]
                        features[channel] += weight[1] * cumulative[seen]
            inner = inner + mix @ features
        energies.append(sum(v * math.tanh(x) for v, x in zip(attention.energy, inner, strict=True)))
    total = sum(math.exp(energy) for energy in energies)
    weights = torch.zeros(len(values), dtype=values.dtype)
    for place, energy in zip(places, energies, strict=True):
        weights[place] = math.exp(energy) / total
    context = sum(weights[place] * values[place] for place in places)
    return context, weights, torch.stack(energies)


@pytest.mark.parametrize("location_features", [0, 3])
def test_agrees_with_the_equations_written_as_loops(location_features):
    attention = make(location_features)
    given = annotations()
    memory = attention.prepare(given)
    query = torch.randn(2, 3, 5, dtype=torch.float64)
    past = torch.rand(2, 3, 9, dtype=torch.float64) * given.mask[:, None]
    previous = Alignment(past / past.sum(-1, keepdim=True), 2 * past)
    with torch.no_grad():
        context, alignment = attention(query, memory, previous)
        energies = attention.energies(query, memory, previous)
        for utterance in range(2):
            places = torch.nonzero(given.mask[utterance]).flatten().tolist()
            for hypothesis in range(3):
                wanted_context, wanted, wanted_energies = loops(
                    attention,
                    query[utterance, hypothesis],
                    given.values[utterance],
                    places,
                    previous.weights[utterance, hypothesis],
                    previous.cumulative[utterance, hypothesis],
                )
                torch.testing.assert_close(alignment.weights[utterance, hypothesis], wanted)
                torch.testing.assert_close(context[utterance, hypothesis], wanted_context)
                torch.testing.assert_close(energies[utterance, hypothesis, places], wanted_energies)
    torch.testing.assert_close(
        alignment.cumulative, previous.cumulative + alignment.weights, msg="cumulative"
    )


@pytest.mark.parametrize("normalizer", ["softmax", "smoothed"])
@pytest.mark.parametrize("window", [None, Window(2, 3), Window(2, 3, soft=True)])
@pytest.mark.parametrize("location_features", [0, 3])
def test_an_utterance_alone_gets_what_it_gets_in_a_batch(location_features, window, normalizer):
    attention = make(location_features, window, normalizer)
    given = annotations()
    alone = Annotations(given.values[1:, :4], given.mask[1:, :4])
    query = torch.randn(2, 1, 5, dtype=torch.float64)
    together, apart = attention.prepare(given), attention.prepare(alone)
    state, alone_state = attention.start(together), attention.start(apart)
    for _ in range(3):
        context, state = attention(query, together, state)
        alone_context, alone_state = attention(query[1:], apart, alone_state)
    torch.testing.assert_close(context[1:], alone_context)
    torch.testing.assert_close(state.weights[1:, :, :4], alone_state.weights)
    assert state.weights[1, :, 4:].abs().max() == 0


@pytest.mark.parametrize("normalizer", ["softmax", "smoothed"])
def test_masked_places_get_exactly_nothing_and_the_rest_sums_to_one(normalizer):
    attention = make(normalizer=normalizer)
    given = annotations()
    _, alignment = attention(
        torch.randn(2, 2, 5, dtype=torch.float64) * 30,
        attention.prepare(given),
        attention.start(attention.prepare(given), 2),
    )
    assert (alignment.weights[~given.mask[:, None].expand(-1, 2, -1)] == 0).all()
    torch.testing.assert_close(alignment.weights.sum(-1), torch.ones(2, 2, dtype=torch.float64))


def test_nothing_to_attend_to_gives_zeros_and_finite_gradients():
    attention = make(location_features=2)
    values = torch.randn(1, 5, 6, dtype=torch.float64, requires_grad=True)
    memory = attention.prepare(Annotations(values, torch.zeros(1, 5, dtype=torch.bool)))
    query = torch.randn(1, 1, 5, dtype=torch.float64)
    context, alignment = attention(query, memory, attention.start(memory))
    assert context.abs().sum() == 0 and alignment.weights.sum() == 0
    (context.sum() + alignment.weights.sum()).backward()
    assert all(torch.isfinite(each.grad).all() for each in attention.parameters())


@pytest.mark.parametrize("location_features", [0, 2])
def test_gradients_are_right_in_double_precision(location_features):
    attention = make(location_features)
    mask = torch.tensor([[True, True, True, False]])
    past = torch.tensor([[[0.2, 0.5, 0.3, 0.0]]], dtype=torch.float64)

    def attend(query, values):
        memory = attention.prepare(Annotations(values, mask))
        context, alignment = attention(query, memory, Alignment(past, past))
        return context, alignment.weights

    query = torch.randn(1, 1, 5, dtype=torch.float64, requires_grad=True)
    values = torch.randn(1, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(attend, (query, values))


def test_unknown_normalizer_and_even_width_are_refused():
    with pytest.raises(ValueError, match="softmax"):
        AdditiveAttention(2, 2, 2, normalizer="hardmax")
    with pytest.raises(ValueError, match="odd"):
        AdditiveAttention(2, 2, 2, location_features=1, location_width=4)
