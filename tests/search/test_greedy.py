"""Greedy search: the most probable token at each step, for any batch."""

import numpy as np
import pytest
import torch

from asr.search import ctc_greedy, greedy
from asr.text.vocabulary import BLANK, EOS


def limits(*numbers):
    return np.array(numbers)


def alone(memory, row):
    return type(memory)(*(part[row : row + 1] for part in memory))


def forced(decoder, memory, row, tokens):
    """Return log-probabilities and weights of tokens and <eos>, by teacher forcing."""
    previous = torch.tensor([[EOS, *tokens]])
    output = decoder(previous, alone(memory, row))
    log_probabilities = output.logits.log_softmax(-1)[0]
    return [
        float(log_probabilities[step, token]) for step, token in enumerate([*tokens, EOS])
    ], output.weights[0]


def test_each_token_is_the_likeliest(toys):
    memory = toys.table_memory(5, 5, 4)
    decoder = toys.TableDecoder()
    for row, found in enumerate(greedy(toys.bound(decoder, memory), limits(*[4] * 5), guard=None)):
        number = EOS
        for token in [*found.tokens, EOS][: 4 + (found.stop_reason == "eos")]:
            logits = memory.values[row, number].clone()
            logits[BLANK] = -torch.inf
            assert int(logits.argmax()) == token
            number = number * 5 + token


def test_blank_is_never_said(toys):
    memory = toys.table_memory(2, 5, 3)
    memory.values[..., BLANK] = 100
    for found in greedy(toys.bound(toys.TableDecoder(), memory), limits(3, 3)):
        assert BLANK not in found.tokens


@pytest.mark.parametrize("limit", [0, 3, 40])
def test_probabilities_and_weights_are_those_of_teacher_forcing(toys, limit):
    decoder, memory = toys.real(8, 11, seed=3)
    with torch.no_grad():
        found = greedy(toys.bound(decoder, memory), limits(*[limit] * 8))
        for row, each in enumerate(found):
            summands, weights = forced(decoder, memory, row, each.tokens)
            assert len(each.tokens) <= limit
            np.testing.assert_allclose(each.token_log_probabilities, summands, atol=1e-3)
            np.testing.assert_allclose(each.weights, weights, atol=1e-3)
            assert each.log_probability == pytest.approx(sum(summands), abs=1e-3)
    assert limit < 40 or len({each.stop_reason for each in found}) > 1


def test_batch_is_alone(toys):
    decoder, memory = toys.real(9, 10, seed=4)
    caps = np.arange(9) * 4
    together = greedy(toys.bound(decoder, memory), caps)
    assert len({len(each.tokens) for each in together}) > 3
    for row, each in enumerate(together):
        (single,) = greedy(toys.bound(decoder, alone(memory, row)), caps[row : row + 1])
        assert each.tokens == single.tokens and each.stop_reason == single.stop_reason
        np.testing.assert_allclose(each.weights, single.weights, atol=1e-3)
        assert each.log_probability == pytest.approx(single.log_probability, abs=1e-3)


def test_utterances_that_have_ended_stop_costing(toys):
    script = [(3 + step % 7, step) for step in range(16)]
    memory = toys.scripted_memory(*(script[:length] for length in (1, 2, 3, 16)))
    seen = []
    decoder = toys.ScriptedDecoder()
    step = decoder.step

    def counted(token, state, memory):
        seen.append(len(token))
        return step(token, state, memory)

    decoder.step = counted
    found = greedy(toys.bound(decoder, memory), limits(20, 20, 20, 15))
    assert [len(each.tokens) for each in found] == [1, 2, 3, 15]
    assert seen == [4, 4, 3, 2] + [1] * 12


def test_the_limit_ends_a_text_by_length_unless_it_ends_there_itself(toys):
    memory = toys.scripted_memory([(3, 0), (4, 1), (EOS, 2)], [(3, 0), (4, 1), (5, 2)])
    itself, cut = greedy(toys.bound(toys.ScriptedDecoder(), memory), limits(2, 2))
    assert (itself.tokens, itself.stop_reason) == ([3, 4], "eos")
    assert (cut.tokens, cut.stop_reason) == ([3, 4], "length")
    assert cut.weights.argmax(-1).tolist() == [0, 1, 2]


def test_no_utterances_give_no_texts(toys):
    memory = toys.table_memory(0, 4, 2)
    assert greedy(toys.bound(toys.TableDecoder(), memory), np.zeros(0, np.int64)) == []


@pytest.mark.parametrize("wrong", [[3], [[3, 3]], [3, -1]])
def test_wrong_limits_are_refused(toys, wrong):
    with pytest.raises(ValueError, match="limits"):
        greedy(toys.bound(toys.TableDecoder(), toys.table_memory(2, 4, 2)), np.array(wrong))


def test_ctc_greedy_joins_repeats_and_drops_blanks():
    paths = torch.tensor([[3, 3, 0, 3, 4, 4], [0, 5, 5, 0, 0, 7], [0, 0, 0, 0, 0, 0]])
    log_probs = torch.nn.functional.one_hot(paths, 8).float().log().numpy()
    assert ctc_greedy(log_probs, limits(6, 4, 6)) == [[3, 3, 4], [5], []]
