"""Several heads compared with torch's implementation, and with single heads."""

import pytest
import torch
from attention_contract import LENGTH, SIZE, given, make
from torch.nn import functional

from asr.attention import Alignment, Annotations
from asr.attention.build import build_attention

HEADS = 4
GROUPS = pytest.mark.parametrize("shared", [4, 2, 1])


def asked():
    torch.manual_seed(8)
    return torch.randn(4, 3, SIZE, dtype=torch.float64)


@GROUPS
@pytest.mark.parametrize("kind", ["dot", "scaled_dot"])
def test_agrees_with_torch_s_product_of_grouped_queries(kind, shared):
    attention, annotations, query = (
        make(kind, heads=HEADS, key_value_heads=shared),
        given(),
        asked(),
    )
    memory = attention.prepare(annotations)
    context, _ = attention(query, memory, attention.start(memory, 3))

    def split(projected):
        return projected.unflatten(-1, (-1, SIZE // HEADS)).transpose(1, 2)

    heads = functional.scaled_dot_product_attention(
        split(attention.query(query)),
        split(attention.key(annotations.values)),
        split(attention.value(annotations.values)),
        attn_mask=annotations.mask[:, None, None],
        scale=1.0 if kind == "dot" else None,
        enable_gqa=True,
    )
    wanted = attention.output(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(context[:3], wanted[:3])  # the last has no allowed position


def test_agrees_with_torch_s_multi_head_module_and_its_mean_weights():
    attention, annotations, query = make("scaled_dot", heads=HEADS), given(), asked()
    theirs = torch.nn.MultiheadAttention(SIZE, HEADS, bias=False, batch_first=True).double()
    ours = [attention.query.weight, attention.key.weight, attention.value.weight]
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat(ours))
        theirs.out_proj.weight.copy_(attention.output.weight)
    memory = attention.prepare(annotations)
    context, alignment = attention(query, memory, attention.start(memory, 3))
    values = annotations.values
    wanted, weights = theirs(query, values, values, key_padding_mask=~annotations.mask)
    torch.testing.assert_close(context[:3], wanted[:3])
    torch.testing.assert_close(alignment.weights[:3], weights[:3])


@GROUPS
def test_a_context_begins_as_large_as_the_annotation_that_it_is_of(shared):
    torch.manual_seed(0)
    attention = build_attention("additive", 64, 64, 64, HEADS, shared)
    annotations = Annotations(torch.randn(50, 1, 64), torch.ones(50, 1, dtype=torch.bool))
    memory = attention.prepare(annotations)
    context, _ = attention(torch.randn(50, 1, 64), memory, attention.start(memory, 1))
    assert 0.7 < context.std() / annotations.values.std() < 1.4


@GROUPS
@pytest.mark.parametrize("kind", ["additive", "coverage", "linear", "local"])
def test_each_head_is_the_mechanism_on_its_own_projections(kind, shared):
    attention, annotations, query = (
        make(kind, heads=HEADS, key_value_heads=shared),
        given(),
        asked(),
    )
    past = torch.rand(4, 3, LENGTH, dtype=torch.float64)
    previous = Alignment(past, 2 * past)
    context, alignment = attention(query, attention.prepare(annotations), previous)
    size, contexts, weights = SIZE // HEADS, [], []
    for head in range(HEADS):
        mine = slice(head * size, (head + 1) * size)
        group = head // (HEADS // shared)
        theirs = slice(group * size, (group + 1) * size)
        keys = annotations.values @ attention.key.weight[theirs].T
        values = annotations.values @ attention.value.weight[theirs].T
        alone = attention.head.prepare(Annotations(keys, annotations.mask))
        seen, looked = attention.head(
            query @ attention.query.weight[mine].T, alone._replace(values=values), previous
        )
        contexts.append(seen)
        weights.append(looked.weights)
    torch.testing.assert_close(context, torch.cat(contexts, -1) @ attention.output.weight.T)
    torch.testing.assert_close(alignment.weights, sum(weights) / HEADS)
    torch.testing.assert_close(alignment.cumulative, 2 * past + alignment.weights)


def test_shared_keys_and_values_are_stored_once():
    for shared in (4, 2, 1):
        memory = make("dot", heads=HEADS, key_value_heads=shared).prepare(given())
        assert memory.keys.shape == (4, shared, LENGTH, 2 * SIZE // HEADS)


@pytest.mark.parametrize(
    ("heads", "shared", "kind", "words"),
    [
        (3, None, "additive", "heads must divide the attention size 8, got 3"),
        (0, None, "additive", "got 0"),
        (4, 3, "additive", "divide heads, got 3 and 4"),
        (1, 2, "additive", "key_value_heads = 2 needs"),
        (2, None, "fixed", "set heads = 1"),
    ],
)
def test_numbers_of_heads_that_make_no_sense_are_refused(heads, shared, kind, words):
    with pytest.raises(ValueError, match=words):
        build_attention(kind, SIZE, SIZE, 8, heads, shared)
