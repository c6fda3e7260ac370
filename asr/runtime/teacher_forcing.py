"""Teacher forcing at run time: attention weights and log-probabilities of a known text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from asr.attention.contract import Memory
from asr.models.decoder import Decoder
from asr.text.vocabulary import EOS


@torch.no_grad()
def teacher_forced_weights(
    decoder: Decoder, memory: Memory, tokens: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Run the decoder over a known text; return its attention weights and log-probabilities.

    decoder: in eval mode. memory: of one utterance (B = 1). tokens: U ids without end-of-sentence.
    Returns weights (U + 1, T) and log-probabilities (U + 1,), end-of-sentence last: those of a
    search that chooses these tokens.

    Raises:
        ValueError: the memory is of several utterances.
    """
    if len(memory.values) != 1:
        raise ValueError(f"memory must be of one utterance, got {len(memory.values)}")
    expected = torch.tensor([*tokens, EOS], device=memory.values.device)
    previous = torch.cat([expected[-1:], expected[:-1]])[None]  # (1, U + 1)
    output = decoder(previous, memory)
    log_probabilities = torch.log_softmax(output.logits[0].float(), dim=-1)  # (U + 1, V)
    return output.weights[0], log_probabilities.gather(1, expected[:, None])[:, 0]
