"""An annotation depends on its whole sentence, from both sides, and on nothing else."""

import pytest
import torch

from asr.models.textual import TextualEncoder, most_target_tokens

SENTENCES = [[5, 3, 4, 1], [7, 1], [3, 3, 9, 8, 6, 4, 1], [1]]


@pytest.fixture(params=[1, 3])
def encoder(request: pytest.FixtureRequest) -> TextualEncoder:
    torch.manual_seed(0)
    return TextualEncoder(10, embedding_size=6, state_size=5, layers=request.param).eval()


@torch.no_grad()
def test_a_sentence_in_a_batch_is_annotated_as_alone(encoder: TextualEncoder) -> None:
    together = encoder.annotate(SENTENCES)
    assert together.values.shape == (4, 7, encoder.size)
    for row, sentence in enumerate(SENTENCES):
        alone = encoder.annotate([sentence])
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
    torch.manual_seed(0)
    encoder = TextualEncoder(10, embedding_size=6, state_size=5).eval()
    sentence, other_end = encoder.annotate([[4, 5, 6], [4, 5, 7]]).values
    assert torch.equal(sentence[:2, :5], other_end[:2, :5])  # forwards, has not seen the end
    assert (sentence[:2, 5:] != other_end[:2, 5:]).all()  # backwards, has


def test_training_reaches_every_parameter(encoder: TextualEncoder) -> None:
    encoder.annotate(SENTENCES).values.sum().backward()
    assert all(each.grad is not None and each.grad.any() for each in encoder.parameters())


def test_an_encoder_needs_a_layer() -> None:
    with pytest.raises(ValueError, match="layers"):
        TextualEncoder(10, layers=0)


def test_longer_sources_may_have_longer_translations() -> None:
    limits = most_target_tokens(torch.tensor([1, 2, 50])).tolist()
    assert limits == sorted(limits) and limits[0] > 1 and limits[-1] >= 100
