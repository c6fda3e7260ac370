"""An annotation depends on its whole sentence, in both directions, and on nothing else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from asr.attention.contract import Annotations
from asr.corpora.collate import pad_tokens
from asr.errors import UserError
from asr.models.dropout import Dropout
from asr.models.encoders.recurrent import reversal
from asr.models.encoders.self_attention import SelfAttention, add_positions
from asr.models.encoders.textual import TextualEncoder
from asr.models.settings import TextualSettings
from asr.search.limits import most_target_tokens
from asr.tables import to_table

SENTENCES = [[5, 3, 4, 1], [7, 1], [3, 3, 9, 8, 6, 4, 1], [1]]


STACKS: list[dict[str, Any]] = [
    {"layers": 1},
    {"layers": 3},
    {"layers": 2, "cell": "gru"},
    {"layers": 1, "attention_layers": 2, "heads": 2},
    {"layers": 0, "attention_layers": 2, "heads": 5},
]


def make(**options: Any) -> TextualEncoder:
    torch.manual_seed(0)
    sizes = {**to_table(TextualSettings()), "embedding_size": 6, "state_size": 5}
    return TextualEncoder(10, **{**sizes, **options}).eval()


def annotate(encoder: TextualEncoder, sentences: Sequence[Sequence[int]]) -> Annotations:
    return encoder(*map(torch.from_numpy, pad_tokens(sentences)))


@pytest.fixture(params=STACKS, ids=str)
def encoder(request: pytest.FixtureRequest) -> TextualEncoder:
    return make(**request.param)


@torch.no_grad()
def test_a_sentence_in_a_batch_is_annotated_as_alone(encoder: TextualEncoder) -> None:
    together = annotate(encoder, SENTENCES)
    assert together.values.shape == (4, 7, encoder.size)
    for row, sentence in enumerate(SENTENCES):
        alone = annotate(encoder, [sentence])
        assert together.mask[row].tolist() == [i < len(sentence) for i in range(7)]
        torch.testing.assert_close(together.values[row, : len(sentence)], alone.values[0])
        assert not together.values[row, len(sentence) :].any()


@torch.no_grad()
def test_what_the_padding_holds_does_not_matter(encoder: TextualEncoder) -> None:
    lengths = torch.tensor([2, 4])
    tokens = torch.tensor([[4, 1, 0, 0], [5, 6, 7, 1]])
    changed = torch.tensor([[4, 1, 9, 3], [5, 6, 7, 1]])
    torch.testing.assert_close(encoder(tokens, lengths).values, encoder(changed, lengths).values)


@torch.no_grad()
def test_each_half_reads_in_its_own_direction() -> None:
    encoder = make()
    sentence, other_end = annotate(encoder, [[4, 5, 6], [4, 5, 7]]).values
    assert torch.equal(
        sentence[:2, :5], other_end[:2, :5]
    )  # forward states do not depend on the end
    assert (sentence[:2, 5:] != other_end[:2, 5:]).all()  # backward states do


def test_training_reaches_every_parameter(encoder: TextualEncoder) -> None:
    annotate(encoder.train(), SENTENCES).values.square().sum().backward()
    for name, each in encoder.named_parameters():
        assert each.grad is not None and each.grad.any(), name


@torch.no_grad()
def test_every_annotation_knows_the_whole_sentence_and_its_order(encoder: TextualEncoder) -> None:
    values = annotate(encoder, [[4, 5, 6, 7], [4, 5, 6, 8], [9, 5, 6, 7], [4, 6, 5, 7]]).values
    for other in values[1:]:
        assert ((values[0] - other).abs().amax(1) > 1e-6).all()


@torch.no_grad()
def test_positions_tell_places_apart_and_are_added_where_nothing_has_read_the_order() -> None:
    same = [[3, 3, 3, 3]]
    assert annotate(make(layers=0, attention_layers=1, heads=2), same).values[0].std(0).min() > 1e-4
    places = add_positions(torch.zeros(1, 50, 8))[0]
    assert torch.cdist(places, places).fill_diagonal_(1).min() > 0.1
    torch.testing.assert_close(places.square().sum(1), torch.full((50,), 4.0))  # sin² + cos²
    torch.testing.assert_close(places[7, 0], torch.tensor(7.0).sin())
    torch.testing.assert_close(places[7, 5], torch.tensor(7 / 10_000**0.25).cos())


def test_cells_are_those_asked_for() -> None:
    kinds = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
    for cell, kind in kinds.items():
        found = {type(each) for each in make(layers=2, cell=cell).modules()}
        assert found & set(kinds.values()) == {kind}


def test_dropout_rates_are_those_of_their_places() -> None:
    lengths, tokens = torch.tensor([3, 3]), torch.tensor([[4, 5, 6], [7, 8, 9]])
    deaf = make(dropout=0.0, embedding_dropout=1.0).train()(tokens, lengths).values
    assert torch.equal(deaf[0], deaf[1]) and deaf.any()
    assert not make(dropout=0.0, annotation_dropout=1.0).train()(tokens, lengths).values.any()
    rates = {"dropout": 1.0, "embedding_dropout": 0.0, "annotation_dropout": 0.0}
    parted, plain = make(layers=2, **rates).train(), make(layers=2)
    assert not torch.equal(parted(tokens, lengths).values, plain(tokens, lengths).values)
    first = parted.first
    assert first is not None
    second_of_nothing = parted.rest[0](torch.zeros(2, 3, 10), reversal(lengths, 3))
    wanted = first(parted.embedding(tokens), reversal(lengths, 3)) + second_of_nothing
    torch.testing.assert_close(parted(tokens, lengths).values, wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "at least 1 .* got 0 [+] 0"),
        ({"layers": 2, "attention_layers": -1}, "negative, got 2 [+] -1"),
        ({"cell": "rnn"}, "encoder.cell 'rnn' is not one of: lstm, gru"),
        ({"attention_layers": 1, "heads": 3}, "must divide the annotation size 10 .* got 3"),
    ],
)
def test_what_makes_no_encoder_is_refused_in_a_line(options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        make(**options)
    assert "\n" not in str(error.value)


def test_longer_sources_may_have_longer_translations() -> None:
    limits = most_target_tokens(np.array([1, 2, 50])).tolist()
    assert limits == sorted(limits) and limits[0] > 1 and limits[-1] >= 100


def test_self_attention_drops_with_the_fast_dropout_everywhere():
    parts = SelfAttention(8, 2, 2, 0.3).modules()
    dropouts = [part for part in parts if isinstance(part, nn.Dropout)]
    assert len(dropouts) == 2 * 3
    assert all(isinstance(part, Dropout) and part.p == 0.3 for part in dropouts)
