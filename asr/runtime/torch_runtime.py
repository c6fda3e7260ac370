"""Search with torch: a decoder and the memory of one batch as a `SearchDecoder`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from asr.attention.contract import Memory
from asr.models.decoder import Decoder
from asr.models.state import DecoderState
from asr.search.contract import Booleans, Integers, Stepped
from asr.search.trees import take


class TorchDecoder:
    """An `asr.search.contract.SearchDecoder` in torch, on the device of the memory.

    Each step copies the tokens to that device, and log-probabilities and weights back in one copy.
    """

    def __init__(self, module: Decoder, memory: Memory) -> None:
        """Bind a decoder in eval mode to the memory of one batch."""
        self._module = module
        self._memory = memory
        self._device = memory.mask.device

    @property
    def utterances(self) -> int:
        """See `SearchDecoder.utterances`."""
        return len(self._memory.mask)

    @torch.inference_mode()
    def start(self) -> DecoderState:
        """See `SearchDecoder.start`."""
        return self._module.start(self._memory)

    @torch.inference_mode()
    def step(
        self, tokens: Integers, state: DecoderState, alive: Booleans | None = None
    ) -> Stepped[DecoderState]:
        """See `SearchDecoder.step`."""
        logits, state = self._module.step(self._tensor(tokens), state, self._memory)
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        return Stepped(*_arrays(log_probs, state.alignment.weights.float()), state)

    @torch.inference_mode()
    def select(self, state: DecoderState, parents: Integers) -> DecoderState:
        """See `SearchDecoder.select`."""
        return state.select(self._tensor(parents))

    @torch.inference_mode()
    def take(self, state: DecoderState, rows: Integers) -> tuple[TorchDecoder, DecoderState]:
        """See `SearchDecoder.take`."""
        index = self._tensor(rows)
        return TorchDecoder(self._module, take(self._memory, index)), take(state, index)

    def _tensor(self, numbers: Integers) -> Tensor:
        return torch.from_numpy(numbers).to(self._device)


def _arrays(first: Tensor, second: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return two float32 tensors (B, N, ·) as arrays, with one copy from their device."""
    if first.device.type == "cpu":
        return first.numpy(), second.numpy()
    joined = torch.cat([first, second], dim=-1).cpu().numpy()
    size = first.size(-1)
    return joined[..., :size], joined[..., size:]
