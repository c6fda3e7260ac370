"""Each mechanism compared with the equations of its paper, by position, in plain Python."""

import math

import pytest
import torch
from attention_contract import LENGTH, SIZE, given, make

from asr.attention import AdditiveAttention, Alignment, build_attention
from asr.attention.contract import attention_class
from asr.attention.fixed import FixedContext


def rows(matrix):
    return matrix.detach().tolist()


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def times(matrix, vector):
    return [dot(row, vector) for row in matrix]


def plus(*vectors):
    return [sum(column) for column in zip(*vectors, strict=True)]


def tanh_score(vector, inner):
    return dot(vector, [math.tanh(value) for value in inner])


def additive(attention, state, annotation, place, past):
    """Bahdanau et al. 2015, A.1.2, and Chorowski et al. 2015, eq. (8) and (9)."""
    kernel, mix = [], [[[0.0]]] * SIZE  # without location features
    if attention.location is not None:
        kernel, mix = (rows(each.weight) for each in attention.location)
    features = [
        sum(
            filters[channel][offset + 1] * past[channel][place + offset]
            for channel in range(2)
            for offset in (-1, 0, 1)
            if 0 <= place + offset < LENGTH
        )
        for filters in kernel
    ]
    term = [sum(w[0] * f for w, f in zip(row, features, strict=False)) for row in mix]
    asked = times(rows(attention.query.weight), state)
    key = plus(times(rows(attention.key.weight), annotation), rows(attention.key.bias))
    return tanh_score(rows(attention.energy), plus(asked, key, term))


def concat(attention, state, annotation, place, past):
    """Luong et al. 2015, eq. (8)."""
    inner = times(rows(attention.both.weight), state + annotation)
    return tanh_score(rows(attention.energy), inner)


def coverage(attention, state, annotation, place, past):
    """See et al. 2017, eq. (11)."""
    asked = times(rows(attention.query.weight), state)
    key = plus(times(rows(attention.key.weight), annotation), rows(attention.key.bias))
    seen = [row[0] * past[1][place] for row in rows(attention.coverage.weight)]
    return tanh_score(rows(attention.energy), plus(asked, key, seen))


def luong_dot(attention, state, annotation, place, past):
    """Luong et al. 2015, eq. (8)."""
    return dot(state, annotation)


def general(attention, state, annotation, place, past):
    """Luong et al. 2015, eq. (8)."""
    return dot(state, times(rows(attention.key.weight), annotation))


def local(attention, state, annotation, place, past):
    """Luong et al. 2015, the logarithm of eq. (10) with eq. (9), for the whole utterance."""
    inner = times(rows(attention.place.weight), state)
    share = 1 / (1 + math.exp(-tanh_score(rows(attention.energy), inner)))
    reach = 3  # D
    gauss = math.exp(-((place - LENGTH * share) ** 2) / (2 * (reach / 2) ** 2))
    return general(attention, state, annotation, place, past) + math.log(gauss)


def linear(attention, state, annotation, place, past):
    """Katharopoulos et al. 2020, the logarithm of φ(q)ᵀφ(k) with eq. (7)."""

    def feature(vector):
        return [value + 1 if value > 0 else math.exp(value) for value in vector]

    asked = feature(times(rows(attention.query.weight), state))
    return math.log(dot(asked, feature(times(rows(attention.key.weight), annotation))))


def relu(attention, state, annotation, place, past):
    """Additive attention (Bahdanau et al. 2015, A.1.2) with max(0, x) for tanh."""
    asked = times(rows(attention.query.weight), state)
    key = plus(times(rows(attention.key.weight), annotation), rows(attention.key.bias))
    return dot(rows(attention.energy), [max(0.0, value) for value in plus(asked, key)])


def scaled_dot(attention, state, annotation, place, past):
    """Vaswani et al. 2017, eq. (1)."""
    asked = times(rows(attention.query.weight), state)
    return dot(asked, times(rows(attention.key.weight), annotation)) / math.sqrt(SIZE)


EQUATIONS = {
    "additive": additive,
    "concat": concat,
    "coverage": coverage,
    "dot": luong_dot,
    "general": general,
    "linear": linear,
    "local": local,
    "relu": relu,
    "scaled_dot": scaled_dot,
}


@pytest.mark.parametrize("kind", sorted(EQUATIONS))
def test_energies_weights_and_context_are_what_the_paper_writes(kind):
    compare(make(kind), EQUATIONS[kind])


def test_additive_attention_without_location_features_is_what_the_paper_writes():
    compare(AdditiveAttention(SIZE, SIZE, SIZE).double(), additive)


def test_coverage_begins_as_additive_attention():
    attention, annotations = build_attention("coverage", SIZE, SIZE, SIZE).double(), given()
    memory = attention.prepare(annotations)
    query = torch.randn(4, 1, SIZE, dtype=torch.float64)
    past = torch.rand(2, 4, 1, LENGTH, dtype=torch.float64)
    energies = [attention.energies(query, memory, Alignment(*each)) for each in (past, 9 * past)]
    assert torch.equal(*energies)


def compare(attention, equation):
    with torch.no_grad():
        for parameter in attention.parameters():  # also those initialised to 0
            parameter.uniform_(-1, 1)
    annotations = given()
    query = torch.randn(4, 2, SIZE, dtype=torch.float64)
    past = torch.rand(2, 4, 2, LENGTH, dtype=torch.float64)
    memory, previous = attention.prepare(annotations), Alignment(*past)
    with torch.no_grad():
        found = attention.energies(query, memory, previous)[0]
        context, alignment = attention(query, memory, previous)
    for hypothesis in range(2):
        state, values = rows(query[0, hypothesis]), rows(annotations.values[0])
        energies = [
            equation(attention, state, values[place], place, rows(past[:, 0, hypothesis]))
            for place in range(LENGTH)
        ]
        weights = [math.exp(energy) / sum(map(math.exp, energies)) for energy in energies]
        seen = times(list(zip(*values, strict=True)), weights)
        for got, wanted in (
            (found[hypothesis], energies),
            (alignment.weights[0, hypothesis], weights),
            (context[0, hypothesis], seen),
        ):
            torch.testing.assert_close(got, torch.tensor(wanted, dtype=torch.float64))


def test_linear_attention_gives_what_one_pass_over_the_places_gives():
    attention, annotations = make("linear"), given()
    memory = attention.prepare(annotations)
    query = torch.randn(4, 2, SIZE, dtype=torch.float64)
    context, _ = attention(query, memory, attention.start(memory, 2))
    asked = torch.nn.functional.elu(attention.query(query)) + 1
    keys = memory.keys * annotations.mask[..., None]
    summary = keys.transpose(1, 2) @ annotations.values  # (B, A, E), Σ φ(k_j) h_jᵀ
    wanted = (asked @ summary) / (asked @ keys.sum(1)[..., None])
    torch.testing.assert_close(context[:3], wanted[:3])  # the last has no allowed position


@pytest.mark.parametrize("size", [0, SIZE])
def test_scaled_dot_agrees_with_torch(size):
    annotations = given()
    attention = attention_class("scaled_dot")(SIZE, SIZE, size).double()
    query = torch.randn(4, 3, SIZE, dtype=torch.float64)
    memory = attention.prepare(annotations)
    context, _ = attention(query, memory, attention.start(memory, 3))
    wanted = torch.nn.functional.scaled_dot_product_attention(
        attention.query(query),
        memory.keys,
        memory.values,
        attn_mask=annotations.mask[:, None].expand(-1, 3, -1),
    )
    torch.testing.assert_close(context[:3], wanted[:3])


@pytest.mark.parametrize("summary", ["last", "mean"])
def test_fixed_context_is_one_summary_whatever_is_asked(summary):
    attention, annotations = FixedContext(SIZE, SIZE, summary), given()
    memory = attention.prepare(annotations)
    state = attention.start(memory, 2)
    for _ in range(2):
        context, state = attention(torch.randn(4, 2, SIZE).double(), memory, state)
        for row, ends in enumerate(([10], [8], [9])):
            places = ends if summary == "last" else annotations.mask[row].nonzero().flatten()
            wanted = annotations.values[row, places].mean(0)
            torch.testing.assert_close(context[row], wanted.expand(2, -1))


def test_sizes_and_names_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="equal size"):
        attention_class("dot")(query_size=3, annotation_size=4)
    with pytest.raises(ValueError, match="give an attention_size"):
        attention_class("scaled_dot")(3, 4, 0)
    with pytest.raises(ValueError, match="odd"):
        AdditiveAttention(2, 2, 2, location_features=1, location_width=4)
    with pytest.raises(ValueError, match="local_reach"):
        attention_class("local")(3, 4, local_reach=0)
    with pytest.raises(ValueError, match="last, mean"):
        attention_class("fixed")(3, 4, summary="first")
